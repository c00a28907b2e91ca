// Sends the file that a job waits for as it is: a form would have to be collected by the server first.
for (const form of document.querySelectorAll("[data-upload]")) {
  const said = form.querySelector("[role=status]");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const file = form.querySelector("input[type=file]").files[0];
    const button = form.querySelector("button");
    const request = new XMLHttpRequest();
    request.open("POST", `${form.dataset.upload}?filename=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("X-CSRFToken", form.querySelector("[name=csrfmiddlewaretoken]").value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      said.textContent = `${Math.floor((100 * loaded) / total)} % sent`;
    });
    const failed = (why) => { button.disabled = false; said.textContent = why; };
    request.addEventListener("error", () => failed("The connection broke off. Send it again."));
    request.addEventListener("load", () => {
      if (request.status === 201) return location.reload();
      let why = "It was not taken. Send it again.";
      try { why = JSON.parse(request.responseText).detail ?? why; } catch { /* not an answer of the API */ }
      return failed(why);
    });
    button.disabled = true;
    request.send(file);
  });
}
