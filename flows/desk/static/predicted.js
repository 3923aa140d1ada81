"use strict";
// Predictions that a model is asked for once the page is there: of edited designs, and of what is typed to edit one.
(() => {
  const PAUSE_MS = 600, AGAIN_MS = 4000;

  async function ask(place, address) {
    const mine = place.dataset.asked = address;
    place.setAttribute("aria-busy", "true");
    const answer = await fetch(address, { headers: { "Fieldcraft-Live": "1" } }).catch(() => null);
    const text = answer && answer.ok && !answer.redirected ? await answer.text() : "";
    if (place.dataset.asked !== mine) return; // another design is asked for by now
    if (answer?.status === 503) { // too many ask, or the ledger is away
      setTimeout(() => { if (place.dataset.asked === mine) ask(place, address); }, AGAIN_MS);
      return;
    }
    place.removeAttribute("aria-busy");
    if (text) place.innerHTML = text;
    else place.textContent = "Nothing can be predicted for this design: the desk gave no answer.";
  }

  function all(root) {
    for (const place of root.querySelectorAll("[data-predicted]")) {
      if (place.dataset.asked !== place.dataset.predicted) ask(place, place.dataset.predicted);
    }
  }

  let due = 0;
  document.addEventListener("input", ({ target }) => {
    const form = target.closest("form[data-tried]");
    if (!form || !target.name.startsWith("x.")) return;
    clearTimeout(due);
    const place = form.querySelector(".tried"), query = new URLSearchParams();
    for (const each of form.elements) {
      const was = each.matches("select") ? [...each.options].find((one) => one.defaultSelected)?.value : each.defaultValue;
      if (each.name.startsWith("x.") && each.value !== was) query.set(each.name, each.value);
    }
    delete place.dataset.asked;
    place.textContent = query.size ? "The model is asked what it predicts …" : "";
    if (query.size) due = setTimeout(() => ask(place, `${form.dataset.tried}?${query}`), PAUSE_MS);
  });
  document.addEventListener("DOMContentLoaded", () => all(document));
  document.addEventListener("renewed", () => setTimeout(() => all(document))); // once the page has taken what is new
})();
