// Keeps times true: relative ones and running durations move on, the exact ones are in the viewer's zone.
const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

// Moments come from the server; a clock of this machine that is off must not make them negative.
const said = document.querySelector("meta[name=rerail-now]")?.content;
const ahead = said ? Date.now() - Date.parse(said) : 0;

function span(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  for (const [size, unit, smaller, smallerUnit] of UNITS) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / smaller);
    return rest ? `${Math.floor(whole / size)} ${unit} ${rest} ${smallerUnit}` : `${Math.floor(whole / size)} ${unit}`;
  }
  return `${whole} s`;
}

const coarse = (seconds) => span(seconds).split(" ").slice(0, 2).join(" ");

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
const TIME = new Intl.DateTimeFormat([], CLOCK);
const DAY_AND_TIME = new Intl.DateTimeFormat([], { day: "numeric", month: "short", ...CLOCK });
const isToday = (moment, now) => moment.toDateString() === new Date(now).toDateString();

const SHOWN = {
  ago: (moment, now) => `${coarse((now - moment) / 1000)} ago`,
  since: (moment, now) => span((now - moment) / 1000),
  at: (moment, now) => (isToday(moment, now) ? TIME.format(moment) : DAY_AND_TIME.format(moment)),
};

function tell(element, now) {
  const moment = new Date(element.dateTime);
  const text = SHOWN[element.dataset.show](moment, now);
  if (element.textContent !== text) element.textContent = text;
  element.title ||= moment.toLocaleString();
}

function tellAll() {
  const now = Date.now() - ahead;
  for (const element of document.querySelectorAll("time[data-show]")) tell(element, now);
}

for (const element of document.querySelectorAll("time[data-show]")) element.title = "";
document.addEventListener("htmx:load", (event) => {
  const now = Date.now() - ahead;
  for (const element of event.target.querySelectorAll?.("time[data-show]") ?? []) { element.title = ""; tell(element, now); }
});
tellAll();
setInterval(tellAll, 1000);
