"use strict";
// Decisions: a form of a card is sent without leaving the page, and the next card gets the focus.
const main = document.getElementById("main");
const cards = () => [...document.querySelectorAll(".card:not(.settled)")];
const say = (text, kind = "done") => {
  const line = Object.assign(document.createElement("p"), { className: `said ${kind}`, textContent: text });
  document.getElementById("said").replaceChildren(line);
};

function note(card, text) {
  let line = card.querySelector(".told");
  if (!line) {
    line = Object.assign(document.createElement("p"), { className: "told said problem" });
    card.querySelector("header").after(line);
  }
  line.textContent = text;
  line.setAttribute("role", "alert");
}

function settle(card, text, move) {
  const all = cards(), place = all.indexOf(card);
  if (move) (all[place + 1] || all[place - 1] || main).focus();
  card.remove();
  const count = document.getElementById("count");
  count.textContent = Math.max(0, Number(count.textContent) - 1);
  say(text);
  chosen();
}

async function stale(card) {
  const choice = encodeURIComponent(card.dataset.choice);
  card.classList.add("settled");
  card.querySelectorAll("button, input, select").forEach((each) => { each.disabled = true; });
  const headers = { Accept: "application/json", "Fieldcraft-Live": "1" }; // nobody has asked: it keeps no session alive
  const told = await fetch(`/queue/${card.dataset.campaign}/stale?choice=${choice}`, { headers }).then((answer) => answer.json()).catch(() => ({}));
  note(card, `This card is stale: ${told.text || "it has changed."}`);
  chosen();
}

async function send(form, button) {
  const chosenCards = form.matches(".batch")
    ? cards().filter((card) => card.querySelector("input[name=choice]:checked") && card.dataset.campaign === form.id.slice(6))
    : [form.closest(".card")];
  const body = new URLSearchParams(new FormData(form, button));
  const buttons = form.querySelectorAll("button"), move = (form.closest(".card") || form).contains(document.activeElement);
  chosenCards.forEach((card) => card.classList.add("busy"));
  buttons.forEach((each) => { each.disabled = true; });
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    const told = await answer.json();
    if (answer.status === 401) return location.reload();
    if (answer.ok) chosenCards.forEach((card) => settle(card, told.text, move));
    else if (form.matches(".batch")) say(told.error, "problem");
    else note(chosenCards[0], told.error);
  } catch {
    say("The desk does not answer. Look at the queue again before you decide once more.", "problem");
  } finally {
    buttons.forEach((each) => { each.disabled = false; });
    chosenCards.forEach((card) => card.classList.remove("busy"));
  }
}

function chosen() {
  for (const form of document.querySelectorAll(".batch")) {
    const boxes = [...form.elements].filter((each) => each.name === "choice" && !each.disabled);
    const count = boxes.filter((each) => each.checked).length;
    form.querySelector(".chosen").textContent = count;
    form.classList.toggle("some", count > 0);
    form.hidden = boxes.length < 2;
  }
}

main.addEventListener("submit", (event) => {
  if (!event.target.matches(".act, .batch")) return;
  event.preventDefault();
  send(event.target, event.submitter);
});
main.addEventListener("change", chosen);
main.addEventListener("click", (event) => {
  if (!event.target.matches(".all")) return;
  [...event.target.form.elements].forEach((each) => { if (each.name === "choice") each.checked = !each.disabled; });
  chosen();
});

document.addEventListener("renewed", ({ detail: fresh }) => {
  const now = new Map([...fresh.querySelectorAll(".card")].map((card) => [card.dataset.choice, card]));
  for (const card of cards()) {
    if (now.has(card.dataset.choice)) now.delete(card.dataset.choice);
    else if (!card.matches(".busy")) stale(card); // what this page decides itself is told by its answer
  }
  for (const card of now.values()) { // proposed or edited since: below the others, nobody's focus moves
    if (document.querySelector(`[data-choice="${CSS.escape(card.dataset.choice)}"]`)) continue;
    document.querySelector(`#${CSS.escape(`queue-${card.dataset.campaign}`)} .deck`)?.append(card);
  }
  document.getElementById("count").textContent = fresh.querySelector("#count").textContent;
});

const KEYS = {
  j: (card, all) => all[all.indexOf(card) + 1]?.focus(),
  k: (card, all) => all[all.indexOf(card) - 1]?.focus(),
  a: (card) => card.querySelector(".approve")?.focus(),
  r: (card) => open(card, ".reject", ".preset"),
  e: (card) => open(card, ".edit", "input:not([type=hidden]), select"),
  x: (card) => card.querySelector("[type=checkbox]")?.click(),
  b: (card) => document.getElementById(`batch-${card.dataset.campaign}`)?.querySelector("button.main").focus(),
};
function open(card, which, first) {
  const details = card.querySelector(which);
  if (!details) return;
  details.open = true;
  details.querySelector(first).focus();
}
main.addEventListener("keydown", (event) => {
  const card = event.target.closest(".card");
  if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    card.querySelectorAll(".actions details").forEach((each) => { each.open = false; });
    return card.focus();
  }
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const preset = card.querySelectorAll(".reject[open] .preset")[Number(event.key) - 1];
  if (!preset && !KEYS[event.key]) return;
  event.preventDefault();
  if (preset) preset.click();
  else KEYS[event.key](card, cards());
});
const named = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest(".card"); // where a notice leads
if (named) addEventListener("load", () => setTimeout(() => named.focus())); // the browser's own jump takes the focus away
else cards()[0]?.focus({ preventScroll: true });
