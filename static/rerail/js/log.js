// Follows a log that grows, unless somebody scrolled up to read; and forgets its beginning before it gets too long.
const LONGEST = 2_000_000;

const toEnd = (log) => { log.scrollTop = log.scrollHeight; };
const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 24;

let following = true;
const log = () => document.querySelector("[data-follow]");

document.addEventListener("htmx:oobBeforeSwap", () => { if (log()) following = atEnd(log()); });
document.addEventListener("htmx:oobAfterSwap", () => {
  const shown = log();
  if (!shown || !following) return;
  while (shown.textContent.length > LONGEST && shown.childNodes.length > 1) shown.firstChild.remove();
  toEnd(shown);
});

if (log()) toEnd(log());
