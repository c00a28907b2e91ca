// Looks for news while somebody can see the page, and says so when there is no connection.
const offline = document.getElementById("offline");

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches("[data-poll]")) event.preventDefault();
});

const connected = (yes) => () => { if (offline) offline.hidden = yes; };
document.addEventListener("htmx:sendError", connected(false));
document.addEventListener("htmx:timeout", connected(false));
document.addEventListener("htmx:afterOnLoad", connected(true));
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status >= 500) connected(false)();
});
