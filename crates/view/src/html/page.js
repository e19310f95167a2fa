// Folding, searching, sorting and copying tables; explanations, reading values out, zooming; light and dark. The page is
// complete without it.
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const make = (name, words, given = {}) => {
    const element = document.createElement(name);
    element.textContent = words;
    for (const [key, value] of Object.entries(given)) element.setAttribute(key, value);
    return element;
  };
  const button = (words, pressed, given = {}) => {
    const element = make("button", words, { type: "button", ...given });
    element.addEventListener("click", () => pressed(element));
    return element;
  };
  // Said aloud by screen readers, and shown for a moment.
  const said = document.getElementById("said");
  const say = (words) => {
    said.textContent = words;
    clearTimeout(say.timer);
    say.timer = setTimeout(() => (said.textContent = ""), 4000);
  };
  const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

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

  // ---- folding
  const folds = all("details.fold");
  const foldAll = document.getElementById("fold");
  const nameFold = () => (foldAll.textContent = folds.some((fold) => fold.open) ? "Fold all" : "Unfold all");
  if (folds.length > 1) {
    foldAll.hidden = false;
    nameFold();
    foldAll.addEventListener("click", () => {
      const open = !folds.some((fold) => fold.open);
      for (const fold of folds) fold.open = open;
    });
    for (const fold of folds) fold.addEventListener("toggle", nameFold);
  }
  // The place that a link leads to must not be folded.
  const reveal = (target) => {
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    for (const inner of target.querySelectorAll(":scope > details.fold")) inner.open = true;
  };
  const followLink = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target) {
      reveal(target);
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", followLink);
  followLink();
  for (const link of all('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const target = document.getElementById(link.getAttribute("href").slice(1));
      if (target) reveal(target);
    });
  }

  // ---- tables: sorting
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
  const sortBy = (head) => {
    const table = head.closest("table");
    const first = head.classList.contains("n") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    for (const sibling of head.parentNode.cells) sibling.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [key(row, head.cellIndex), row]);
    rows.sort((a, b) => {
      // Empty cells come last in either order.
      if (a[0] === "" || b[0] === "") return (a[0] === "") - (b[0] === "");
      return sign * compare(a[0], b[0]);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const head of all("table.grid thead th")) head.addEventListener("click", () => sortBy(head));

  // ---- tables: the first ten rows, and copying
  const TOP = 10;
  // Numbers are copied in full, without separators; a column's unit stands in its head.
  const value = (cell) => {
    if (cell.dataset.v !== undefined) return cell.dataset.v;
    const text = cell.textContent.trim();
    return /^\d{1,3}(,\d{3})+$/.test(text) ? text.replaceAll(",", "") : text;
  };
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const csv = (table) => {
    const heads = [...table.tHead.rows[0].cells].map((cell) => {
      const unit = cell.dataset.unit ? ` (${cell.dataset.unit})` : "";
      return quoted(cell.textContent.trim() + unit);
    });
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const lines = rows.map((row) => [...row.cells].map((cell) => quoted(value(cell))).join(","));
    return [rows.length, [heads.join(","), ...lines, ""].join("\n")];
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Browsers that keep the clipboard from files still copy a selection.
      const area = make("textarea", text, { "aria-hidden": "true", class: "aside" });
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };
  const grids = all("table.grid").map((table) => {
    const wide = table.closest(".wide");
    const n = table.tBodies[0].rows.length;
    const tools = make("p", "", { class: "tools" });
    if (n > TOP + 2) {
      wide.classList.add("short");
      const words = (isShort) => (isShort ? `Show all ${n.toLocaleString("en")} rows` : `Show the top ${TOP}`);
      const more = button(words(true), () => {
        const isShort = wide.classList.toggle("short");
        more.textContent = words(isShort);
        more.setAttribute("aria-expanded", String(!isShort));
      });
      more.setAttribute("aria-expanded", "false");
      tools.append(more);
    }
    if (n > 0) {
      tools.append(
        button("Copy as CSV", async () => {
          const [rows, text] = csv(table);
          say((await copy(text)) ? `Copied ${counted(rows, "row")}.` : "The browser did not allow copying.");
        }),
      );
    }
    wide.after(tools);
    return { table, wide, tools };
  });
  for (const code of all("footer code")) {
    code.after(
      " ",
      button("Copy", async () => say((await copy(code.textContent)) ? "Copied the command." : "The browser did not allow copying.")),
    );
  }

  // ---- searching
  // Rows of all tables and lists; drawings and what has no match are hidden meanwhile.
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  let lists = null;
  const prepare = () => {
    const of = (box, rows, tools) => ({ box, tools, rows: rows.map((row) => [row, row.textContent.toLowerCase()]) });
    return [
      ...grids.map(({ table, wide, tools }) => of(wide, [...table.tBodies[0].rows], tools)),
      ...all("table.facts").map((table) => of(table.closest(".wide"), [...table.rows])),
      ...all("dl.facts, dl.figures").map((list) => of(list, [...list.children])),
    ];
  };
  const find = () => {
    const words = search.value.trim().toLowerCase();
    lists ??= prepare();
    root.classList.toggle("searching", words !== "");
    let [nRows, nLists] = [0, 0];
    for (const { box, tools, rows } of lists) {
      let n = 0;
      for (const [row, text] of rows) {
        row.hidden = words !== "" && !text.includes(words);
        n += row.hidden ? 0 : 1;
      }
      box.hidden = words !== "" && n === 0;
      if (tools) tools.hidden = box.hidden;
      // The headline of a table goes with it.
      const title = box.previousElementSibling;
      if (title?.localName === "h3") title.hidden = box.hidden;
      nRows += n;
      nLists += n > 0 ? 1 : 0;
    }
    for (const section of all("main > section")) {
      const of = lists.filter(({ box }) => section.contains(box));
      section.hidden = words !== "" && of.every(({ box }) => box.hidden);
      if (words !== "") for (const { box } of of) if (!box.hidden) reveal(box);
    }
    found.textContent = words === "" ? "" : `${counted(nRows, "row")} in ${counted(nLists, "table")}`;
  };
  if (grids.length) {
    document.getElementById("finder").hidden = false;
    search.addEventListener("input", find);
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && search.value) {
        search.value = "";
        find();
        event.preventDefault();
      }
    });
  }

  // ---- the tip beside the pointer
  const tip = document.getElementById("tip");
  const cursor = document.createElement("div");
  cursor.id = "cursor";
  cursor.hidden = true;
  document.body.append(cursor);
  const hide = () => {
    tip.hidden = true;
    cursor.hidden = true;
  };
  const show = (words, x, y) => {
    tip.replaceChildren(...words.map((line) => make("p", line)));
    tip.hidden = false;
    const left = x + 14 + tip.offsetWidth > innerWidth ? x - 14 - tip.offsetWidth : x + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(innerHeight - tip.offsetHeight - 4, y + 14))}px`;
  };
  addEventListener("scroll", hide, { passive: true, capture: true });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });

  // ---- explanations
  // Without this script, browsers show these titles themselves, but to a pointer only.
  for (const term of all("th[title], dt[title]")) {
    const words = term.title;
    const target = term.querySelector("button") || term;
    term.removeAttribute("title");
    term.classList.add("term");
    target.setAttribute("aria-description", words);
    if (target === term && term.localName === "dt") term.tabIndex = 0;
    const explain = () => {
      const box = term.getBoundingClientRect();
      show([words], box.left, box.bottom - 8);
    };
    term.addEventListener("pointerenter", explain);
    term.addEventListener("pointerleave", hide);
    target.addEventListener("focus", explain);
    target.addEventListener("blur", hide);
  }

  // ---- axes
  const grouped = (text) => {
    const number = Number(text);
    return number >= 1000 ? number.toLocaleString("en") : text;
  };
  const SECONDS = { ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };
  // The axis of a figure whose ends begin with numbers, such as `0 µs` and `1.08 s`: first and last value, and the unit.
  const axisOf = (figure) => {
    const parse = (text) => /^([\d,.]+)\s*(\D*)$/.exec(text || "");
    const [from, to] = [parse(figure.dataset.from), parse(figure.dataset.to)];
    if (!from || !to) return null;
    let [low, high] = [from[1], to[1]].map((text) => Number(text.replaceAll(",", "")));
    if (from[2] !== to[2] && low !== 0) {
      if (!SECONDS[from[2]] || !SECONDS[to[2]]) return null;
      low *= SECONDS[from[2]] / SECONDS[to[2]];
    }
    // An axis without a unit counts what it is called after: `records, 16 a step`.
    const unit = to[2] || (figure.dataset.axis || "").split(",")[0];
    return { low, high, unit, isWhole: !to[2] };
  };
  const number = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  // The parts, such as frames, that a step of a series shows: first and last number.
  const partsOf = (figure, share, nSteps) => {
    const n = Number(figure.dataset.parts);
    const step = Math.min(nSteps - 1, Math.floor(share * nSteps));
    const first = Math.floor((step * n) / nSteps);
    return [first, Math.max(first, Math.floor(((step + 1) * n) / nSteps) - 1)];
  };
  const partIn = (figure, [first, last]) => {
    for (let at = first; at <= last; at += 1) {
      const part = document.getElementById(figure.dataset.part + at);
      if (part) return part;
    }
    return null;
  };
  const place = (figure, share) => {
    const axis = axisOf(figure);
    if (!axis) return "";
    const at = axis.low + (axis.high - axis.low) * share;
    const digits = axis.isWhole ? Math.max(3, Math.ceil(Math.log10(at + 1))) : 3;
    return `≈ ${Number(at.toPrecision(digits)).toLocaleString("en")} ${axis.unit}`.trim();
  };
  // Round numbers between two values, at most about seven.
  const ticks = (low, high) => {
    const rough = (high - low) / 6;
    if (!(rough > 0)) return [[], 0];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const values = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) values.push(at * step + 0); // No negative zero.
    return [values, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
  };
  const drawAxis = (figure, start, end) => {
    const ruler = figure.querySelector("svg.ticks");
    if (!ruler) return;
    if (figure.classList.contains("curve")) {
      for (const mark of ruler.children) {
        mark.dataset.x ??= mark.getAttribute("x");
        const x = (parseFloat(mark.dataset.x) / 100 - start) / (end - start);
        mark.setAttribute("x", `${x * 100}%`);
        mark.style.display = x < -0.001 || x > 1.001 ? "none" : "";
      }
      return;
    }
    const axis = axisOf(figure);
    if (!axis) return;
    const at = (share) => axis.low + (axis.high - axis.low) * share;
    const [values, digits] = ticks(at(start), at(end));
    const unit = axis.isWhole ? "" : ` ${axis.unit}`;
    ruler.replaceChildren(
      ...values
        .filter((value) => !axis.isWhole || Math.abs(value - Math.round(value)) < 1e-9)
        .map((value) => {
          const x = (value - at(start)) / (at(end) - at(start));
          const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
          text.setAttribute("x", `${(x * 100).toFixed(3)}%`);
          text.setAttribute("y", "12");
          text.setAttribute("text-anchor", x < 0.04 ? "start" : x > 0.96 ? "end" : "middle");
          text.textContent = number(value, axis.isWhole ? 0 : digits) + unit;
          return text;
        }),
    );
  };

  // ---- reading values out
  const step = (row, share) => {
    const values = row.dataset.v.split(",");
    const at = Math.min(values.length - 1, Math.floor(share * values.length));
    return [grouped(values[at] || "0"), (at + 0.5) / values.length, at];
  };
  const lines = (svg, figure, share, y) => {
    const rows = all("g[data-l]", svg);
    if (figure.classList.contains("curve")) {
      const read = rows.map((row) => {
        const at = row.dataset.at.split(",").map(Number);
        const reached = at.findLastIndex((x) => x <= share);
        return `${row.dataset.l}: ${reached < 0 ? "0 %" : row.dataset.t.split("|")[reached]}`;
      });
      return [...read, figure.dataset.axis];
    }
    if (figure.classList.contains("series")) {
      const rows = all("g[data-v]", figure);
      const read = rows.map((row) => `${row.dataset.l}: ${step(row, share)[0]} ${row.dataset.u || ""}`.trim());
      if (!figure.dataset.part) return [...read, place(figure, step(rows[0], share)[1])];
      const range = partsOf(figure, share, rows[0].dataset.v.split(",").length);
      const noun = figure.dataset.noun;
      const words = range[0] === range[1] ? `${noun} ${grouped(range[0])}` : `${noun}s ${grouped(range[0])} to ${grouped(range[1])}`;
      return [...read, partIn(figure, range) ? `${words}: click to open` : words];
    }
    const row = rows.find((row) => y >= Number(row.dataset.y) && y < Number(row.dataset.y) + Number(row.dataset.h));
    if (!row) return [];
    const [text, at] = step(row, share);
    return [row.dataset.l, `${text} ${svg.dataset.unit || ""}`, place(figure, at)];
  };

  // ---- drawings: the pointer, zooming, keys
  for (const figure of all("figure")) {
    const plots = all("svg.plot", figure);
    if (!plots.length) continue;
    const boxes = plots.map((svg) => svg.viewBox.baseVal);
    const widths = boxes.map((box) => box.width);
    // The part of the axis that is shown.
    let [start, end] = [0, 1];
    const tools = make("p", "", { class: "tools zoom" });
    const zoom = (from, to) => {
      const width = Math.min(1, Math.max(to - from, 0.005));
      start = Math.min(1 - width, Math.max(0, from));
      end = start + width;
      boxes.forEach((box, i) => {
        box.x = start * widths[i];
        box.width = width * widths[i];
      });
      drawAxis(figure, start, end);
      const isWhole = width > 0.999;
      figure.classList.toggle("zoomed", !isWhole);
      // A button that is disabled loses the focus.
      if (isWhole && tools.contains(document.activeElement)) into.focus();
      for (const one of [out, left, right, whole]) one.disabled = isWhole;
      part.textContent = isWhole ? "" : [place(figure, start), place(figure, end)].filter(Boolean).join(" to ") || `${Math.round(width * 100)} % of the axis`;
      hide();
    };
    const by = (factor) => {
      const [middle, half] = [(start + end) / 2, ((end - start) / 2) * factor];
      zoom(middle - half, middle + half);
    };
    const move = (share) => zoom(start + (end - start) * share, end + (end - start) * share);
    const one = (sign, words, pressed) => button(sign, pressed, { "aria-label": words });
    const into = one("+", "Zoom in", () => by(0.5));
    const out = one("−", "Zoom out", () => by(2));
    const left = one("←", "Move to the left", () => move(-0.5));
    const right = one("→", "Move to the right", () => move(0.5));
    const whole = button("Whole", () => zoom(0, 1), { "aria-label": "Show the whole axis" });
    const part = make("span", "", { role: "status" });
    for (const one of [out, left, right, whole]) one.disabled = true;
    tools.append(into, out, left, right, whole, part);
    figure.prepend(tools);

    const readOut = (svg, x, y) => {
      const box = svg.getBoundingClientRect();
      const part = Math.min(0.999999, Math.max(0, (x - box.left) / box.width));
      const share = Math.min(0.999999, start + (end - start) * part);
      const row = ((y - box.top) / box.height) * svg.viewBox.baseVal.height;
      const words = lines(svg, figure, share, row).filter((line) => line);
      if (!words.length) return hide();
      show(words, x, y);
      const reach = figure.classList.contains("series") ? plots : [svg];
      const [top, bottom] = [reach[0].getBoundingClientRect().top, reach.at(-1).getBoundingClientRect().bottom];
      cursor.hidden = false;
      cursor.style.left = `${x}px`;
      cursor.style.top = `${top}px`;
      cursor.style.height = `${bottom - top}px`;
    };
    const goTo = (share) => {
      if (!figure.dataset.part) return;
      const nSteps = figure.querySelector("g[data-v]").dataset.v.split(",").length;
      const target = partIn(figure, partsOf(figure, share, nSteps));
      if (!target) return;
      reveal(target);
      target.scrollIntoView({ block: "nearest" });
      target.querySelector("summary")?.focus();
    };
    let [from, wasDragged] = [null, false];
    const band = document.createElement("div");
    band.className = "band";
    const shareAt = (svg, x) => {
      const box = svg.getBoundingClientRect();
      return start + (end - start) * Math.min(1, Math.max(0, (x - box.left) / box.width));
    };
    for (const svg of plots) {
      const title = svg.querySelector(":scope > title");
      const words = title?.textContent;
      // The browser would show the title over the values.
      svg.addEventListener("pointerenter", () => title && (title.textContent = ""));
      svg.addEventListener("pointerdown", (event) => {
        wasDragged = false;
        if (event.button === 0 && event.pointerType === "mouse") from = event.clientX;
        else readOut(svg, event.clientX, event.clientY);
      });
      svg.addEventListener("pointermove", (event) => {
        // The button was released elsewhere.
        if (!(event.buttons & 1)) from = null;
        if (from !== null && Math.abs(event.clientX - from) > 4) {
          svg.setPointerCapture(event.pointerId);
          const box = svg.getBoundingClientRect();
          const [a, b] = [from, event.clientX].map((x) => Math.min(box.right, Math.max(box.left, x)));
          document.body.append(band);
          band.style.left = `${Math.min(a, b)}px`;
          band.style.width = `${Math.abs(a - b)}px`;
          band.style.top = `${plots[0].getBoundingClientRect().top}px`;
          band.style.height = `${plots.at(-1).getBoundingClientRect().bottom - plots[0].getBoundingClientRect().top}px`;
        }
        readOut(svg, event.clientX, event.clientY);
      });
      svg.addEventListener("pointerup", (event) => {
        if (from === null) return;
        const [a, b] = [shareAt(svg, from), shareAt(svg, event.clientX)];
        wasDragged = Math.abs(event.clientX - from) > 4;
        if (wasDragged) zoom(Math.min(a, b), Math.max(a, b));
        from = null;
        band.remove();
      });
      svg.addEventListener("click", (event) => {
        if (!wasDragged) goTo(shareAt(svg, event.clientX));
      });
      svg.addEventListener("pointercancel", () => {
        from = null;
        band.remove();
      });
      svg.addEventListener("dblclick", () => zoom(0, 1));
      svg.addEventListener("pointerleave", () => {
        if (title) title.textContent = words;
        if (from === null) hide();
      });
    }
    // With keys, a drawing is read step by step; the values are said aloud, as the tip is a status.
    let [keyed, row, spot] = [plots[0], 0.5, 0.5];
    keyed.setAttribute("tabindex", "0");
    keyed.addEventListener("keydown", (event) => {
      const rows = all("g[data-l]", keyed).filter((row) => row.dataset.h);
      const values = figure.querySelector("g[data-v]")?.dataset.v.split(",").length || 100;
      const one = 1 / values / (end - start);
      const high = 1 / Math.max(1, rows.length);
      const act = {
        ArrowLeft: () => (spot -= one),
        ArrowRight: () => (spot += one),
        ArrowUp: () => (row -= high),
        ArrowDown: () => (row += high),
        Home: () => (spot = 0),
        End: () => (spot = 1),
        "+": () => by(0.5),
        "-": () => by(2),
        0: () => zoom(0, 1),
        Enter: () => goTo(start + (end - start) * spot),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
      [row, spot] = [row, spot].map((share) => Math.min(0.9999, Math.max(0, share)));
      const box = keyed.getBoundingClientRect();
      if (event.key !== "Enter") readOut(keyed, box.left + box.width * spot, box.top + box.height * row);
    });
    keyed.addEventListener("blur", hide);
  }
})();
