"use strict";
// A click on the head of a column of table.sortable sorts by it; numbers by value, texts by letters, empty cells last.
(() => {
  function key(row, place) {
    const text = row.cells[place].textContent.trim();
    const number = Number.parseFloat(text.replace(/,/g, ""));
    return { text, number: /^[-+.\d]/.test(text) && !/^\d{4}-\d\d-/.test(text) ? number : NaN };
  }

  function order(a, b) {
    if (!a.text || !b.text) return a.text ? -1 : b.text ? 1 : 0;
    if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return a.number - b.number;
    return a.text.localeCompare(b.text, "en", { numeric: true });
  }

  function sort(table, place, head) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: key(row, place) }));
    rows.sort((a, b) => (a.key.text && b.key.text && down ? order(b.key, a.key) : order(a.key, b.key)));
    body.append(...rows.map((each) => each.row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, place, head));
    });
  }
})();
