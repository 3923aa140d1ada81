"use strict";
// Draws every element of class "chart" from the JSON within it, follows light, dark and print, and gives out its data.
(() => {
  const themes = {
    light: { ink: "#1d2126", soft: "#5b6570", grid: "#e4e8ec", panel: "#ffffff", line: "#aab3bc" },
    dark: { ink: "#e8ecf0", soft: "#a7b1bb", grid: "#2c343c", panel: "#161b20", line: "#56616b" },
  };
  const night = matchMedia("(prefers-color-scheme: dark)");
  const font = '"Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif';

  function template(theme) {
    const axis = {
      gridcolor: theme.grid, linecolor: theme.line, tickcolor: theme.line, zeroline: false, showline: true,
      ticks: "outside", ticklen: 4, title: { standoff: 8 },
    };
    return { layout: {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: font, size: 12, color: theme.ink },
      xaxis: axis, yaxis: axis, annotationdefaults: { font: { color: theme.ink } },
      hoverlabel: { bgcolor: theme.panel, bordercolor: theme.line, align: "left", font: { family: font, color: theme.ink } },
      sliderdefaults: { bgcolor: theme.grid, bordercolor: theme.line, activebgcolor: theme.line, tickcolor: theme.line },
    } };
  }

  function layoutOf(figure, dark) {
    return { ...figure.layout, autosize: true, template: template(dark ? themes.dark : themes.light) };
  }

  const sizes = new ResizeObserver((changes) => {
    for (const { target } of changes) if (target.querySelector(".main-svg") && target.clientWidth) Plotly.Plots.resize(target);
  });

  function draw(holder, figure, dark = night.matches) {
    const place = holder.querySelector(".plot");
    if (!holder.figure) {
      place.replaceChildren();
      sizes.observe(place);
    }
    holder.figure = figure;
    holder.classList.toggle("map", figure.data.some((trace) => trace.type === "heatmap"));
    const config = { displayModeBar: false, scrollZoom: false, staticPlot: false };
    const done = Plotly.react(place, figure.data, layoutOf(figure, dark), config);
    return done.then(() => { holder.dataset.drawn = "1"; });
  }

  function quoted(cell) {
    const text = cell === null ? "" : String(cell);
    const safe = typeof cell === "string" && /^[=+\-@\t]/.test(text) ? "'" + text : text; // no formula for a spreadsheet
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function holder(title) {
    const made = document.createElement("figure");
    made.className = "chart";
    const head = made.appendChild(document.createElement("h3"));
    head.textContent = title;
    const plot = made.appendChild(document.createElement("div"));
    plot.className = "plot";
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", title);
    const data = made.appendChild(document.createElement("details"));
    data.appendChild(document.createElement("summary")).textContent = `Data of ${title[0].toLowerCase()}${title.slice(1)}`;
    const button = data.appendChild(document.createElement("button"));
    button.type = "button";
    button.className = "data";
    button.textContent = "Save as CSV";
    const table = data.appendChild(document.createElement("div"));
    table.className = "scroll table";
    table.tabIndex = 0;
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", `data of ${title}`);
    offer(made, fileName(title));
    return made;
  }

  const fileName = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-");

  async function tableOf(holder) { // a page that does not hold the table asks for it
    if (holder.figure.rows || !holder.source) return holder.figure;
    return (await fetch(holder.source, { headers: { Accept: "application/json" } })).json();
  }

  function offer(holder, name) {
    const button = holder.querySelector("button.data");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const { head, rows } = await tableOf(holder);
      const text = [head, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = `${name}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  async function tabulate(holder) {
    const place = holder.querySelector(".table");
    if (!place || (place.firstChild && !holder.source)) return;
    const most = 300;
    const { head, rows } = await tableOf(holder);
    place.replaceChildren();
    const table = place.appendChild(document.createElement("table"));
    const top = table.createTHead().insertRow();
    for (const name of head) {
      const cell = top.appendChild(document.createElement("th"));
      cell.scope = "col";
      cell.textContent = name;
    }
    const body = table.createTBody();
    for (const row of rows.slice(0, most)) {
      const line = body.insertRow();
      for (const cell of row) line.insertCell().textContent = cell === null ? "" : String(cell);
    }
    if (rows.length > most) table.createCaption().textContent = `The first ${most} of ${rows.length} rows; the CSV has all.`;
  }

  function each(act) { for (const holder of document.querySelectorAll(".chart")) if (holder.figure) act(holder); }
  function again(dark) { each((holder) => draw(holder, holder.figure, dark)); }

  function start() {
    for (const holder of document.querySelectorAll(".chart")) {
      const source = holder.querySelector('script[type="application/json"]');
      if (!source) continue;
      const figure = JSON.parse(source.textContent);
      draw(holder, figure);
      offer(holder, fileName(figure.title));
    }
    night.addEventListener("change", () => again(night.matches));
    addEventListener("beforeprint", () => again(false));
    addEventListener("afterprint", () => again(night.matches));
    addEventListener("toggle", (event) => {
      if (!event.target.open) return;
      const own = event.target.closest(".chart");
      if (own && own.figure) tabulate(own);
    }, true);
  }

  globalThis.fieldcraftCharts = { draw, holder };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
  else start();
})();
