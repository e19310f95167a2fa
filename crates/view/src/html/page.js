// Sorting, reading values out, light and dark. The page is complete without it.
(() => {
  "use strict";
  const root = document.documentElement;

  // ---- light and dark
  const toggle = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();

  // ---- sorting
  // Counts have separators and addresses are hex: both may exceed what a double holds.
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    const plain = text.replaceAll(",", "");
    return /^(0x[0-9a-f]+|\d+)$/.test(plain) ? BigInt(plain) : text;
  };
  const isNumber = (value) => typeof value !== "string";
  const compare = (a, b) => {
    if (isNumber(a) && isNumber(b)) return a < b ? -1 : a > b ? 1 : 0;
    if (isNumber(a) !== isNumber(b)) return isNumber(a) ? -1 : 1;
    return a.localeCompare(b, "en");
  };
  for (const head of document.querySelectorAll("table.grid th")) {
    head.addEventListener("click", () => {
      const table = head.closest("table");
      const first = head.classList.contains("n") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      for (const sibling of head.parentNode.cells) sibling.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows].map((row) => [key(row, head.cellIndex), row]);
      rows.sort((a, b) => {
        // What is empty stays behind.
        if (a[0] === "" || b[0] === "") return (a[0] === "") - (b[0] === "");
        return sign * compare(a[0], b[0]);
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  }

  // ---- reading out
  const tip = document.getElementById("tip");
  const cursor = document.createElement("div");
  cursor.id = "cursor";
  cursor.hidden = true;
  document.body.append(cursor);
  const grouped = (text) => {
    const number = Number(text);
    return number >= 1000 ? number.toLocaleString("en") : text;
  };
  // The place on an axis whose ends are texts such as `0 µs` and `1.08 s`: where both begin with a number.
  const place = (figure, share) => {
    const parse = (text) => /^([\d,.]+)\s*(.*)$/.exec(text || "");
    const [from, to] = [parse(figure.dataset.from), parse(figure.dataset.to)];
    if (!from || !to) return "";
    const [low, high] = [from[1], to[1]].map((text) => Number(text.replaceAll(",", "")));
    if (low !== 0 && from[2] !== to[2]) return "";
    const at = low + (high - low) * share;
    const digits = to[2] || /\./.test(to[1]) ? 3 : Math.max(3, Math.ceil(Math.log10(at + 1)));
    return `≈ ${Number(at.toPrecision(digits)).toLocaleString("en")} ${to[2]}`.trim();
  };
  const value = (row, share) => {
    const values = row.dataset.v.split(",");
    const step = Math.min(values.length - 1, Math.floor(share * values.length));
    return [grouped(values[step] || "0"), (step + 0.5) / values.length];
  };
  const lines = (svg, figure, share, y) => {
    const rows = [...svg.querySelectorAll("g[data-l]")];
    if (figure.classList.contains("curve")) {
      return rows.map((row) => {
        const at = row.dataset.at.split(",").map(Number);
        const reached = at.findLastIndex((x) => x <= share);
        return `${row.dataset.l}: ${reached < 0 ? "0 %" : row.dataset.t.split("|")[reached]}`;
      });
    }
    if (figure.classList.contains("series")) {
      const all = [...figure.querySelectorAll("g[data-v]")];
      return [...all.map((row) => `${row.dataset.l}: ${value(row, share)[0]}`), place(figure, value(all[0], share)[1])];
    }
    const row = rows.find((row) => y >= Number(row.dataset.y) && y < Number(row.dataset.y) + Number(row.dataset.h));
    if (!row) return [];
    const [text, at] = value(row, share);
    return [row.dataset.l, `${text} ${svg.dataset.unit || ""}`, place(figure, at)];
  };
  const hide = () => {
    tip.hidden = true;
    cursor.hidden = true;
  };
  for (const svg of document.querySelectorAll("svg.plot")) {
    const figure = svg.closest("figure");
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const share = Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width));
      const y = ((event.clientY - box.top) / box.height) * svg.viewBox.baseVal.height;
      const words = lines(svg, figure, share, y).filter((line) => line);
      if (!words.length) return hide();
      tip.replaceChildren(
        ...words.map((line) => {
          const p = document.createElement("p");
          p.textContent = line;
          return p;
        }),
      );
      tip.hidden = false;
      const left = event.clientX + 14 + tip.offsetWidth > innerWidth ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14;
      tip.style.left = `${Math.max(4, left)}px`;
      tip.style.top = `${Math.min(innerHeight - tip.offsetHeight - 4, event.clientY + 14)}px`;
      const whole = figure.classList.contains("series") ? [...figure.querySelectorAll("svg.plot")] : [svg];
      const [top, bottom] = [whole[0].getBoundingClientRect().top, whole.at(-1).getBoundingClientRect().bottom];
      cursor.hidden = false;
      cursor.style.left = `${event.clientX}px`;
      cursor.style.top = `${top}px`;
      cursor.style.height = `${bottom - top}px`;
    });
    svg.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, { passive: true, capture: true });
})();
