// Newer jobs come in by themselves while nobody is reading the list; else a button says that they are there.
const unread = (list) => window.scrollY === 0 && !list.matches(":hover") && !list.contains(document.activeElement);

document.addEventListener("htmx:load", () => {
  const newer = document.getElementById("newer");
  const list = document.getElementById("list");
  if (newer && list && unread(list)) window.htmx.trigger(newer, "unread");
});
