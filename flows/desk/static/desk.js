"use strict";
// Pages follow the ledger: a commit renews every part marked data-live. Keys and decisions are in queue.js.
const live = document.getElementById("live");

async function renew() {
  const answer = await fetch(location.href, { headers: { "Fieldcraft-Live": "1" } });
  if (answer.redirected || answer.status === 401) return location.reload();
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || next.innerHTML === part.dataset.was) continue;
    part.dataset.was = next.innerHTML;
    if (part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) continue;
    const open = [...part.querySelectorAll("details")].map((each) => each.open);
    part.innerHTML = next.innerHTML;
    part.querySelectorAll("details").forEach((each, place) => { each.open = open[place] || each.open; });
  }
  document.dispatchEvent(new CustomEvent("renewed", { detail: fresh }));
}

function follow() {
  if (document.hidden) return document.addEventListener("visibilitychange", follow, { once: true });
  const stream = new EventSource("/live");
  let due = 0;
  const soon = () => { clearTimeout(due); due = setTimeout(() => renew().catch(() => tell("Not live")), 50); };
  const tell = (text) => { live.textContent = text; live.classList.toggle("off", text !== "Live"); };
  stream.onopen = () => tell("Live");
  stream.onerror = () => tell("Not live: the desk does not answer");
  stream.onmessage = (message) => {
    const names = JSON.parse(message.data);
    if (names.includes("away")) tell("The ledger cannot be read now");
    const [, page, name] = location.pathname.split("/");
    if (!name || page === "laboratory" || names.includes(decodeURIComponent(name))) soon();
  };
  stream.addEventListener("ended", () => location.reload());
  addEventListener("pagehide", () => stream.close());
  document.addEventListener("visibilitychange", () => { // a browser has six connections for all its tabs
    stream.close();
    document.addEventListener("visibilitychange", () => { follow(); soon(); }, { once: true });
  }, { once: true });
}

async function enter(form) { // a result that is refused is told beside what was typed
  const answer = await fetch(form.action, {
    method: "POST", body: new FormData(form), redirect: "manual", headers: { Accept: "application/json" },
  });
  if (answer.type === "opaqueredirect") return location.assign(form.dataset.next);
  const told = form.querySelector(".told") || form.appendChild(document.createElement("p"));
  told.className = "told said problem";
  told.setAttribute("role", "alert");
  told.textContent = (await answer.json()).error;
}

for (const form of document.querySelectorAll("form[data-next]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    enter(form).catch(() => form.submit());
  });
}
if (live && document.querySelector("[data-live]")) follow();
else if (live) live.textContent = "";
if (document.getElementById("away")) setTimeout(() => location.reload(), 5000);
const entry = document.getElementById("sign-in");
if (entry && location.hash.length > 1) { // the token in the address that the desk printed: never sent as an address
  entry.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  entry.submit();
}
