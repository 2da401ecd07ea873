// Tables of a report: sorted by their headings, searched, and walked through by arrow keys.
// Without this script they are plain tables, whose details are shown under a pointer or on focus.
"use strict";

const LONG = 15; // rows from which a table is searched

function keyOf(cell) {
  if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
  const shown = cell.querySelector("span") || cell;
  const text = shown.textContent.trim();
  if (text === "" || text === "–") return null;
  const middle = text.replace(/^[±≤]/, "").split("±")[0]; // of 170 ± 8
  const plain = middle.replace(/[,\s%]/g, "").replace("−", "-");
  return plain !== "" && Number.isFinite(Number(plain)) ? Number(plain) : text;
}

// Numbers before texts, and what is missing last in both directions.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  if (typeof a === "number") return sign * (a - b);
  return sign * a.localeCompare(b, undefined, { numeric: true });
}

function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const rises = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rises ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
      rows.sort((a, b) => compare(a[0], b[0], rises ? 1 : -1));
      body.append(...rows.map((pair) => pair[1]));
    });
  });
}

function tools(table) {
  const rows = [...table.tBodies[0].rows];
  const texts = new Map();
  for (const row of rows) {
    texts.set(row, [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  }
  const bar = document.createElement("div");
  bar.className = "tools";
  const label = document.createElement("label");
  const search = document.createElement("input");
  const found = document.createElement("output");
  search.type = "search";
  label.append("Search ", search);
  bar.append(label);
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    found.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  if (table.querySelector(".detail")) {
    const all = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    all.append(box, " Show all limits");
    box.addEventListener("change", () => table.classList.toggle("open", box.checked));
    bar.append(all);
  }
  bar.append(found);
  table.parentElement.before(bar);
}

// One stop of the tabulator for a table; arrow keys go to the next cell that has details.
function walkable(table) {
  const stops = [...table.querySelectorAll("td[tabindex]")];
  stops.slice(1).forEach((cell) => (cell.tabIndex = -1));
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  table.addEventListener("keydown", (event) => {
    const from = event.target.closest("td");
    if (event.key === "Escape" && from) from.blur();
    const step = steps[event.key];
    if (!from || !step) return;
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    let i = rows.indexOf(from.parentElement);
    let j = from.cellIndex;
    let cell = null;
    do {
      i += step[0];
      j += step[1];
      cell = rows[i] ? rows[i].cells[j] : null;
    } while (cell && !cell.hasAttribute("tabindex"));
    if (!cell) return;
    event.preventDefault();
    table.querySelectorAll('td[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
    cell.tabIndex = 0;
    cell.focus();
  });
}

for (const table of document.querySelectorAll("table")) {
  const length = table.tBodies[0].rows.length;
  if (length > 1) sortable(table);
  if (length > LONG || table.querySelector(".detail")) tools(table);
  walkable(table);
}
