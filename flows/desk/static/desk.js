"use strict";
// Pages follow the ledger: a commit renews every part marked data-live. Keys and decisions are in queue.js.
const live = document.getElementById("live");

async function renew() {
  const answer = await fetch(location.href, { headers: { "Fieldcraft-Live": "1" } });
  if (answer.redirected || answer.status === 401) return location.reload();
  if (!answer.ok) return answer.status === 503 ? "The ledger cannot be read now" : "Not live: this page is not here any more";
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
  const silent = "Not live: the desk does not answer";
  const tell = (text) => { live.textContent = text; live.classList.toggle("off", text !== "Live"); };
  let stream = null, due = 0, heard = false;
  const soon = (wait, what = again) => { clearTimeout(due); due = setTimeout(what, wait); };
  async function again() {
    const wrong = await renew().catch(() => silent);
    tell(wrong || "Live");
    if (wrong) soon(3000);
    else if (stream.readyState === EventSource.CLOSED) listen();
  }
  function listen() {
    stream = new EventSource("/live");
    stream.onopen = () => { heard = false; };
    stream.onerror = () => {
      tell(silent);
      if (stream.readyState === EventSource.CLOSED) soon(3000); // otherwise the browser tries again by itself
    };
    stream.addEventListener("here", () => { // what was committed before the stream began is fetched once
      if (!heard) soon(0);
      heard = true;
    });
    stream.onmessage = (message) => {
      const names = JSON.parse(message.data);
      const [, page, name] = location.pathname.split("/");
      if (names.includes(":away") || !name || page === "laboratory" || names.includes(decodeURIComponent(name))) soon(50);
    };
    stream.addEventListener("ended", () => location.reload());
  }
  listen();
  addEventListener("pagehide", () => stream.close());
  document.addEventListener("visibilitychange", () => { // a browser has six connections for all its tabs
    clearTimeout(due);
    stream.close();
    document.addEventListener("visibilitychange", follow, { once: true });
  }, { once: true });
}

async function enter(form) { // a result that is refused is told beside what was typed
  const told = form.querySelector(".told") || form.appendChild(document.createElement("p"));
  const buttons = [...form.querySelectorAll("button")].filter((each) => !each.disabled);
  told.className = "told said";
  told.textContent = "Sending …";
  const body = new FormData(form);
  buttons.forEach((each) => { each.disabled = true; });
  try {
    const answer = await fetch(form.action, { method: "POST", body, redirect: "manual", headers: { Accept: "application/json" } });
    if (answer.type === "opaqueredirect") return location.assign(form.dataset.next);
    const text = await answer.text();
    told.textContent = answer.headers.get("content-type") === "application/json" ? JSON.parse(text).error : text;
  } catch { // it may have been recorded: sent once more, a part could count twice
    told.textContent = "The desk does not answer. Look whether this was recorded before you send it once more.";
  }
  told.className = "told said problem";
  told.setAttribute("role", "alert");
  buttons.forEach((each) => { each.disabled = false; });
}

for (const form of document.querySelectorAll("form[data-next]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    enter(form);
  });
}
document.querySelectorAll("[data-live]").forEach((part) => { part.dataset.was = part.innerHTML; });
if (live && document.querySelector("[data-live]")) follow();
else if (live) live.textContent = "";
if (document.getElementById("away")) setInterval(async () => { // asking keeps no session alive
  const answer = await fetch(location.href, { headers: { "Fieldcraft-Live": "1" } }).catch(() => null);
  if (answer && answer.status !== 503) location.reload();
}, 3000);
const entry = document.getElementById("sign-in");
if (entry && location.hash.length > 1) { // the token in the address that the desk printed: never sent as an address
  const token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  if ("direct" in entry.dataset) {
    entry.elements.token.value = token;
    entry.submit();
  }
}
