"use strict";
// Charts of a page: each element with data-figures asks for its own, and again when the ledger changes.
(() => {
  // plotly.js writes attributes "style", which the desk's policy forbids; the same by the object model is allowed.
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else set.call(this, name, value);
  };

  const kept = new Map(); // address: ETag
  let fresh = 0;

  function holderOf(place, chart, from) {
    const key = chart.place;
    let holder = [...place.children].find((each) => each.dataset.key === key);
    if (!holder) {
      holder = fieldcraftCharts.holder(chart.title);
      holder.dataset.key = key;
      place.append(holder);
    }
    const [path, query] = from.split("?");
    holder.source = `${path}/${key}${query ? `?${query}` : ""}`;
    return holder;
  }

  async function show(place, from) {
    const answer = await fetch(from, { headers: { Accept: "application/json", "If-None-Match": (place.dataset.shown === from && kept.get(from)) || "" } });
    const hidden = place.closest("section[hidden]"); // until it is known that there is a picture
    if (!answer.ok && answer.status !== 304 && hidden) {
      const said = place.appendChild(document.createElement("p"));
      said.textContent = "This field could not be drawn. Health says what is wrong with it.";
      hidden.hidden = false;
    }
    if (!answer.ok) return;
    kept.set(from, answer.headers.get("ETag"));
    const { charts } = await answer.json();
    const keys = new Set(charts.map((chart) => chart.place));
    for (const each of [...place.children]) if (!keys.has(each.dataset.key)) each.remove();
    if (hidden) hidden.hidden = !charts.length;
    for (const chart of charts) await fieldcraftCharts.draw(holderOf(place, chart, from), chart);
    place.dataset.shown = from;
  }

  function all(root = document) {
    for (const place of root.querySelectorAll("[data-figures]")) {
      const closed = place.closest("details:not([open])");
      if (!closed) show(place, place.dataset.figures).catch(() => {});
    }
  }

  function slide(panel) {
    const trials = panel.dataset.trials.split(" ");
    const range = panel.querySelector("input[type=range]");
    const place = panel.querySelector(".charts");
    let wanted = 0;
    const move = () => {
      const trial = trials[range.value];
      panel.querySelector("output").textContent = trial;
      range.setAttribute("aria-valuetext", trial);
      const mine = ++wanted;
      setTimeout(() => {
        kept.delete(panel.dataset.fields + trial);
        if (mine === wanted) show(place, panel.dataset.fields + trial).catch(() => {});
      }, 120);
    };
    range.addEventListener("input", move);
    move();
  }

  document.addEventListener("DOMContentLoaded", () => {
    all();
    document.querySelectorAll("[data-fields]").forEach(slide);
  });
  document.addEventListener("toggle", (event) => { if (event.target.open) all(event.target); }, true);
  document.addEventListener("renewed", () => {
    clearTimeout(fresh);
    fresh = setTimeout(all, 150);
  });
})();
