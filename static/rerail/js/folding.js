// What somebody opened stays open when the part of the page around it is replaced.
let open = [];

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const ids = [...event.target.querySelectorAll("details[open][id]")].map((details) => details.id);
  open = [...new Set([...open, ...ids])];
});
document.addEventListener("htmx:oobAfterSwap", () => {
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
});
document.addEventListener("toggle", (event) => {
  if (!event.target.open) open = open.filter((id) => id !== event.target.id);
}, true);
