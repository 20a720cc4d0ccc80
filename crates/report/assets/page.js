// Draws charts, sorts tables and switches colors. Text is only set as text: names come from outside. One file, although it is long:
// a page has each script with a hash of its own, and they would share nearly everything.
(() => {
  "use strict";
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("data").textContent);
  const COLORS = 7;
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif";
  // A4 without margins, in CSS pixels.
  const PRINTED_WIDTH = 670;
  const NOTHING = "–";
  // What is empty now has data later.
  const isLive = root.dataset.live !== undefined;

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  // As text::sanitize in Rust.
  const sanitize = (text) =>
    text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, "\ufffd");

  // Numbers with their units.

  const signed = (value, write) => (value < 0 ? "−" + write(-value) : write(value));
  const short = (value, digits) => String(+value.toPrecision(digits));
  const grouped = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const prefixed = (value, unit, digits) => {
    const prefixes = ["", "k", "M", "G", "T", "P", "E"];
    let at = 0;
    while (value >= 999.5 && at < prefixes.length - 1) {
      value /= 1000;
      at += 1;
    }
    return short(value, digits) + " " + prefixes[at] + unit;
  };
  const seconds = (value, digits) => {
    if (value === 0) return "0 s";
    const steps = [[1e-6, 1e-9, "ns"], [1e-3, 1e-6, "µs"], [1, 1e-3, "ms"], [60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"]];
    const [, scale, unit] = steps.find(([below]) => value < below * 0.9995) || [0, 86400, "d"];
    return short(value / scale, digits) + " " + unit;
  };
  const plain = (value, digits) => {
    if (value === 0) return "0";
    if (value >= 1e15 || value < 1e-4) return value.toExponential(digits - 1);
    return value >= 1000 ? grouped(value) : short(value, digits);
  };
  const number = (value, unit, digits = 3) => {
    switch (unit) {
      case "share": {
        const percent = value * 100;
        if (percent >= 99 && percent < 100) return (Math.floor(percent * 100) / 100).toFixed(2) + " %";
        return signed(percent, (percent) => short(percent, digits)) + " %";
      }
      case "bytes": return signed(value, (value) => prefixed(value, "B", digits));
      case "bits-per-second": return signed(value, (value) => prefixed(value, "bit/s", digits));
      case "seconds": return signed(value, (value) => seconds(value, digits));
      case "count": return signed(value, (value) => (Number.isInteger(value) ? grouped(value) : plain(value, digits)));
      default: return signed(value, (value) => plain(value, digits));
    }
  };
  const UNITS = { count: "count", bytes: "B", share: "%", "bits-per-second": "bit/s", number: "number" };
  /** The label of an axis with its unit, or for times with the units of its ticks. */
  const label = (axis, ticks) => {
    if (axis.categories.length || axis.unit === "text") return sanitize(axis.label);
    const times = axis.unit === "seconds" ? [...new Set(ticks.map((tick) => tick.split(" ")[1]))].join(", ") || "s" : "";
    return `${sanitize(axis.label)} (${times || UNITS[axis.unit]}${axis.log ? ", log scale" : ""})`;
  };

  // Ticks.

  const MINUTE = 60, HOUR = 3600, DAY = 86400;
  const TIMES = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR,
    12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 30 * DAY, 100 * DAY];
  const niceStep = (span, most, unit) => {
    const raw = span / Math.max(1, most);
    if (unit === "seconds" && raw > 1) {
      const found = TIMES.find((step) => step >= raw);
      if (found) return found;
    }
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find((factor) => factor * power >= raw * 0.999) || 10);
    return unit === "count" ? Math.max(1, step) : step;
  };
  const linearTicks = (low, high, most, unit) => {
    if (!(high > low)) return [low];
    const step = niceStep(high - low, most, unit);
    const ticks = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && ticks.length < 100; at += 1) ticks.push(+(at * step).toPrecision(12));
    return ticks;
  };
  const logTicks = (low, high, most, unit) => {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    let all = [];
    if (unit === "seconds" && high > 60 && last - first > 2) {
      for (let power = first; power <= 1; power += 1) all.push(10 ** power);
      all.push(MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, 4 * DAY, 40 * DAY);
    } else {
      for (let power = first; power <= last; power += 1) all.push(10 ** power);
      if (last - first <= 3) all = all.flatMap((tick) => [tick, 2 * tick, 5 * tick]);
    }
    const inside = (ticks) => ticks.filter((tick) => tick >= low * 0.9999 && tick <= high * 1.0001).map((tick) => +tick.toPrecision(12));
    const ticks = inside(all);
    if (ticks.length < 2) return linearTicks(low, high, most, unit);
    const each = Math.ceil(ticks.length / Math.max(2, most));
    // Keep the ticks at powers of ten, or every second or third of them.
    if (each > 1 && last - first <= 3) {
      const decades = inside(all.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9));
      if (decades.length > 1) return decades;
    }
    return ticks.filter((_, at) => at % each === 0);
  };
  // The range of a vertical axis: ends on ticks, and includes zero, except of lines of numbers without a unit, such as logarithms, which begin
  // where the data do.
  const valueRange = (low, high, axis, kind) => {
    if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = axis.log ? [1, 10] : [0, 1];
    if (axis.log) {
      const power = (value, round) => 10 ** round(Math.log10(value) - (round === Math.ceil ? 1e-9 : -1e-9));
      const range = [power(low, Math.floor), power(high, Math.ceil)];
      return range[0] < range[1] ? range : [range[0] / 10, range[1] * 10];
    }
    if (isLive || kind !== "line" || axis.unit !== "number" || low === high) {
      low = Math.min(low, 0);
      high = Math.max(high, 0);
    }
    if (low === high) high = axis.unit === "share" ? 0.1 : 1;
    const step = niceStep(high - low, 5, axis.unit);
    const end = (value, round) => +(round(+(value / step).toPrecision(9)) * step).toPrecision(12);
    const range = [end(low, Math.floor), end(high, Math.ceil)];
    if (axis.unit === "share" && high <= 1) range[1] = Math.min(range[1], 1);
    return range;
  };
  const ends = (series) => {
    let low = Infinity, high = -Infinity;
    for (const [, y] of series.flatMap((one) => one.points)) {
      low = Math.min(low, y);
      high = Math.max(high, y);
    }
    return [low, high];
  };

  // Series differ by seven colors, then by dashes, and by their marks.

  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const colorOf = (at) => color("c" + (at % COLORS));
  const dashOf = (at) => DASHES[Math.floor(at / COLORS) % DASHES.length];
  const mark = (path, at, x, y, size) => {
    switch (at % 4) {
      case 0: path.moveTo(x + size, y); path.arc(x, y, size, 0, 2 * Math.PI); break;
      case 1: path.rect(x - size * 0.85, y - size * 0.85, size * 1.7, size * 1.7); break;
      case 2: path.moveTo(x, y - size * 1.2); path.lineTo(x + size * 1.1, y + size * 0.8); path.lineTo(x - size * 1.1, y + size * 0.8); path.closePath(); break;
      default: path.moveTo(x, y - size * 1.25); path.lineTo(x + size * 1.25, y); path.lineTo(x, y + size * 1.25); path.lineTo(x - size * 1.25, y); path.closePath();
    }
  };
  const SVG = "http://www.w3.org/2000/svg";
  const swatch = (kind, at) => {
    const svg = document.createElementNS(SVG, "svg");
    const put = (name, attributes) => {
      const made = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      svg.append(made);
    };
    const bar = kind === "bar";
    svg.setAttribute("width", bar ? 12 : 24);
    svg.setAttribute("height", 12);
    svg.setAttribute("aria-hidden", "true");
    const paint = `var(--c${at % COLORS})`;
    if (bar) {
      put("rect", { width: 12, height: 12, fill: paint });
      if (at >= COLORS) put("path", { d: "M-2 8L8 -2M2 14L14 2", stroke: "var(--paper)", "stroke-width": 2.5 });
      return svg;
    }
    if (kind !== "dot") put("path", { d: "M0 6H24", stroke: paint, "stroke-width": 2, "stroke-dasharray": dashOf(at).join(" "), fill: "none" });
    if (kind !== "line") {
      const shapes = ["M16 6A4 4 0 1 1 8 6A4 4 0 1 1 16 6", "M8.6 2.6H15.4V9.4H8.6Z", "M12 1.2L16.4 9.2H7.6Z", "M12 1L17 6L12 11L7 6Z"];
      put("path", { d: shapes[at % 4], fill: paint });
    }
    return svg;
  };

  // Charts.

  const isBars = (chart) => chart.kind === "bars" || chart.kind === "stacked-bars";

  /** Removes what uPlot cannot draw, names bars without categories, and aligns points of all series. */
  const prepare = (chart) => {
    const fits = (axis, value) => typeof value === "number" && (!axis.log || value > 0);
    const series = chart.series.map((one, at) => ({
      at,
      name: sanitize(one.name),
      right: Boolean(one.right && chart.right),
      points: one.points.filter(([x, y]) => fits(chart.x, x) && fits(one.right && chart.right ? chart.right : chart.y, y)),
    }));
    const kindOf = (one) => {
      if (isBars(chart)) return one.right ? "dot" : "bar";
      if (chart.kind === "points") return "dot";
      return one.points.length <= 40 && chart.kind === "line" && !isLive ? "both" : "line";
    };
    for (const one of series) one.kind = kindOf(one);
    if (isBars(chart)) {
      let names = chart.x.categories.map(sanitize);
      if (!names.length) {
        const places = [...new Set(series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
        names = places.map((x) => number(x, chart.x.unit));
        for (const one of series) one.points = one.points.map(([x, y]) => [places.indexOf(x), y]);
      }
      const columns = series.map((one) => {
        const column = new Array(names.length).fill(undefined);
        for (const [x, y] of one.points) if (x in column) column[x] = y;
        return column;
      });
      return { chart, series, names, data: [names.map((_, at) => at), ...columns] };
    }
    // Points of one series at the same x are kept, as in a cloud of points.
    const next = series.map(() => 0), xs = [], columns = series.map(() => []);
    for (;;) {
      let x = Infinity;
      series.forEach((one, at) => { if (next[at] < one.points.length) x = Math.min(x, one.points[next[at]][0]); });
      if (x === Infinity) break;
      xs.push(x);
      series.forEach((one, at) => {
        const here = next[at] < one.points.length && one.points[next[at]][0] === x;
        columns[at].push(here ? one.points[next[at]][1] : undefined);
        if (here) next[at] += 1;
      });
    }
    return { chart, series, names: null, data: [xs, ...columns] };
  };

  const measure = document.createElement("canvas").getContext("2d");
  const widthOf = (text) => {
    measure.font = FONT;
    return measure.measureText(text).width;
  };
  const fitted = (text, width) => {
    if (widthOf(text) <= width) return text;
    let low = 0, high = Math.min(text.length, 200);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (widthOf(text.slice(0, middle) + "…") <= width) low = middle; else high = middle - 1;
    }
    return text.slice(0, low) + "…";
  };

  /** Draws into `holder`, `width` CSS pixels wide. Returns the uPlot instance. */
  const draw = (holder, prepared, width) => {
    const { chart, series, names, data } = prepared;
    const bars = Boolean(names), stacked = chart.kind === "stacked-bars";
    const shown = series.map((one) => !prepared.hidden.has(one.at));
    const barSeries = () => series.filter((one) => one.kind === "bar" && !prepared.hidden.has(one.at));
    // Bars are horizontal if their names do not fit side by side.
    const longest = bars ? Math.max(0, ...names.map((name) => widthOf(name))) : 0;
    const lying = bars && names.length <= 40 && (longest + 10 > (width - 70) / names.length);
    const marks = lying ? Math.max(1, stacked ? 1 : series.filter((one) => one.kind === "bar").length) : 0;
    const extent = lying ? names.length * Math.max(26, marks * 12 + 10) + 50 : root.classList.contains("printing") ? 200 : Math.round(Math.min(340, Math.max(240, width * 0.45)));

    const grid = { stroke: () => color("grid"), width: 1 };
    const ink = () => color("muted");
    const axisOf = (key, axis, side, showGrid) => ({
      scale: key, side, font: FONT, stroke: ink, grid: showGrid ? grid : { show: false },
      ticks: { stroke: () => color("rule"), width: 1, size: 5 }, border: { show: true, stroke: () => color("rule"), width: 1 },
      gap: 5,
      splits: (u, _, low, high) => {
        const pixels = side % 2 ? u.bbox.height : u.bbox.width;
        const room = pixels / devicePixelRatio;
        const each = side % 2 ? 42 : 40 + Math.max(widthOf(number(low, axis.unit)), widthOf(number(high, axis.unit)));
        return (axis.log ? logTicks : linearTicks)(low, high, Math.max(2, Math.floor(room / each)), axis.unit);
      },
      filter: (u, splits) => splits,
      values: (u, splits) => splits.map((tick) => number(tick, axis.unit, 4)),
      size: (u, values) => (side % 2 ? 14 + Math.max(20, ...(values || []).map(widthOf)) : 28),
    });
    const room = Math.min(Math.max(60, longest), Math.max(80, width * 0.36));
    const categories = {
      scale: "x", side: lying ? 3 : 2, font: FONT, stroke: ink, grid: { show: false }, ticks: { show: false },
      border: { show: true, stroke: () => color("rule"), width: 1 }, gap: 6,
      splits: () => {
        const each = lying ? 1 : Math.max(1, Math.ceil(((longest + 10) * names.length) / Math.max(1, width - 70)));
        return names.map((_, at) => at).filter((at) => at % each === 0);
      },
      filter: (u, splits) => splits,
      values: (u, splits) => splits.map((at) => fitted(names[at], lying ? room : 200)),
      size: () => (lying ? room + 14 : 28),
    };

    const barRange = () => {
      const some = barSeries();
      if (!stacked) return valueRange(...ends(some), chart.y);
      let low = 0, high = 0;
      for (const at of names.keys()) {
        let below = 0, above = 0;
        for (const one of some) {
          const value = data[one.at + 1][at] || 0;
          if (value < 0) below += value; else above += value;
        }
        low = Math.min(low, below);
        high = Math.max(high, above);
      }
      if (chart.y.log) [low, high] = [Math.min(...some.map((one) => ends([one])[0])), high];
      return valueRange(low, high, chart.y);
    };
    const range = (axis, right) => (u, low, high) => {
      if (bars && !right) return barRange();
      return valueRange(low === null ? NaN : low, high === null ? NaN : high, axis, chart.kind);
    };
    const xRange = (u, low, high) => {
      if (bars) return [-0.5, names.length - 0.5];
      if (low === null || high === null) return chart.x.log ? [1, 10] : [0, 1];
      if (low < high) return [low, high];
      return chart.x.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    };
    const scale = (axis, more) => ({ time: false, distr: axis.log ? 3 : 1, log: 10, ...more });

    // Bars, side by side or stacked.
    const paint = (one) => (u, at, first, last) => {
      const path = new Path2D();
      const all = barSeries(), place = all.indexOf(one);
      const slot = Math.abs(u.valToPos(1, "x", true) - u.valToPos(0, "x", true));
      const group = Math.min(slot * 0.74, (stacked ? 44 : 40 * all.length) * devicePixelRatio);
      const thick = stacked ? group : group / all.length;
      const ground = u.scales.y.distr === 3 ? u.scales.y.min : 0;
      for (let index = first; index <= last; index += 1) {
        const value = data[at][index];
        if (value === undefined || value === null) continue;
        let from = ground;
        if (stacked) {
          from = 0;
          for (const other of all.slice(0, place)) {
            const below = data[other.at + 1][index] || 0;
            if (below < 0 === value < 0) from += below;
          }
        }
        const to = stacked ? from + value : value;
        if (stacked && u.scales.y.distr === 3) from = Math.max(from, u.scales.y.min);
        const [a, b] = [u.valToPos(from, "y", true), u.valToPos(to, "y", true)];
        const start = u.valToPos(index, "x", true) - group / 2 + (stacked ? 0 : place * thick);
        const gap = stacked ? 0 : Math.min(1, thick * 0.1);
        const long = Math.abs(b - a);
        if (lying) path.rect(Math.min(a, b), start, long, thick - gap); else path.rect(start, Math.min(a, b), thick - gap, long);
      }
      return { stroke: null, fill: path, clip: null, band: null, gaps: null, flags: 3 };
    };
    // Stripes from the eighth color on.
    const filling = (at) => {
      if (at < COLORS) return colorOf(at);
      const tile = document.createElement("canvas");
      tile.width = tile.height = Math.round(8 * devicePixelRatio);
      const brush = tile.getContext("2d");
      brush.fillStyle = colorOf(at);
      brush.fillRect(0, 0, tile.width, tile.height);
      brush.strokeStyle = color("paper");
      brush.lineWidth = tile.width / 4;
      const t = tile.width;
      for (const d of [-t, 0, t]) {
        brush.beginPath();
        brush.moveTo(d - 2, t + 2);
        brush.lineTo(d + t + 2, -2);
        brush.stroke();
      }
      return brush.createPattern(tile, "repeat");
    };
    const drawMarks = (u, at) => {
      const one = series[at - 1];
      if (!one || one.kind === "line" || one.kind === "bar" || !u.series[at].show) return;
      const path = new Path2D(), key = one.right ? "r" : "y";
      const size = (chart.kind === "points" ? 3 : bars ? 5 : 3.4) * devicePixelRatio;
      data[at].forEach((value, index) => {
        if (value === undefined || value === null) return;
        const a = u.valToPos(data[0][index], "x", true), b = u.valToPos(value, key, true);
        if (lying) mark(path, one.at, b, a, size); else mark(path, one.at, a, b, size);
      });
      u.ctx.save();
      u.ctx.beginPath();
      const slack = 6 * devicePixelRatio;
      u.ctx.rect(u.bbox.left - slack, u.bbox.top - slack, u.bbox.width + 2 * slack, u.bbox.height + 2 * slack);
      u.ctx.clip();
      u.ctx.fillStyle = colorOf(one.at);
      u.ctx.globalAlpha = chart.kind === "points" ? 0.75 : 1;
      u.ctx.fill(path);
      if (one.kind !== "both") {
        u.ctx.globalAlpha = 1;
        u.ctx.strokeStyle = color("paper");
        u.ctx.lineWidth = devicePixelRatio * (chart.kind === "points" ? 0.5 : 1.5);
        u.ctx.stroke(path);
      }
      u.ctx.restore();
    };

    // A line at zero if there are negative numbers.
    const drawZero = (u) => {
      const { min, max, distr } = u.scales.y;
      if (distr === 3 || !(min < 0) || !(max > 0)) return;
      const at = Math.round(u.valToPos(0, "y", true)), { left, top, width: wide, height: high } = u.bbox;
      u.ctx.fillStyle = color("muted");
      if (lying) u.ctx.fillRect(at, top, devicePixelRatio, high); else u.ctx.fillRect(left, at, wide, devicePixelRatio);
    };
    const nothing = () => null;
    const stepped = uPlot.paths.stepped({ align: 1 }), straight = uPlot.paths.linear();
    const lines = (one) => {
      if (one.kind === "bar") return paint(one);
      if (one.kind === "dot") return nothing;
      return chart.kind === "step" ? stepped : straight;
    };
    const hasRight = series.some((one) => one.right);
    const near = (u, at, index, x) => {
      if (index === null || at === 0 || bars || data[at][index] !== undefined) return index;
      let left = index, right = index;
      while (left >= 0 && data[at][left] === undefined) left -= 1;
      while (right < data[0].length && data[at][right] === undefined) right += 1;
      // Dots have no value elsewhere; steps keep the value before.
      if (chart.kind === "points") return null;
      if (chart.kind === "step") return left >= 0 ? left : null;
      if (left < 0) return null;
      if (right >= data[0].length) return null;
      return x - data[0][left] <= data[0][right] - x ? left : right;
    };
    const options = {
      width, height: extent, legend: { show: false }, padding: [lying ? 6 : 10, hasRight && !lying ? 0 : 26, 0, 0],
      cursor: {
        drag: { x: !bars, y: false, setScale: !bars }, y: false, x: !lying, points: bars ? { show: false } : { size: 9, fill: (u, at) => colorOf(at - 1), stroke: () => color("paper"), width: 1.5 }, dataIdx: near,
        ...(lying ? { x: false, y: false } : {}),
      },
      select: { show: !bars },
      scales: {
        x: scale(bars ? {} : chart.x, { range: xRange, ori: lying ? 1 : 0, dir: lying ? -1 : 1 }),
        y: scale(chart.y, { range: range(chart.y, false), ori: lying ? 0 : 1 }),
        ...(hasRight ? { r: scale(chart.right, { range: range(chart.right, true), ori: lying ? 0 : 1 }) } : {}),
      },
      axes: [
        bars ? categories : axisOf("x", chart.x, 2, true),
        axisOf("y", chart.y, lying ? 2 : 3, true),
        ...(hasRight ? [axisOf("r", chart.right, lying ? 0 : 1, false)] : []),
      ],
      series: [
        {},
        ...series.map((one, at) => ({
          label: one.name, scale: one.right ? "r" : "y", show: shown[at], spanGaps: true, paths: lines(one), points: { show: false },
          width: one.kind === "bar" ? 0 : 1.75, stroke: () => colorOf(one.at), dash: dashOf(one.at).length ? dashOf(one.at) : undefined,
          fill: one.kind === "bar" ? () => filling(one.at) : undefined,
        })),
      ],
      hooks: { draw: [drawZero], drawSeries: [drawMarks], setCursor: [(u) => holder.read && holder.read(u, lying)] },
    };

    const above = element("div", "labels"), plot = element("div", "plot"), below = element("div", "below");
    holder.plot.replaceChildren(above, plot, below);
    // The ticks of an axis are known only when it is drawn.
    const labels = [];
    const say = (where, axis, at) => {
      const said = element("span", "axis-label clip", label(axis, []));
      said.dataset.named = String(axis.categories.length > 0);
      labels.push([said, axis, at]);
      where.append(said);
    };
    say(above, lying ? chart.x : chart.y, lying ? 0 : 1);
    if (hasRight) say(above, chart.right, 2);
    say(below, lying ? chart.y : chart.x, lying ? 1 : 0);
    options.hooks.drawAxes = [(u) => {
      for (const [said, axis, at] of labels) said.title = said.textContent = label(axis, u.axes[at]._values || []);
    }];
    const made = new uPlot(options, data, plot);
    made.root.querySelectorAll("canvas").forEach((canvas) => {
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", sanitize(chart.caption));
    });
    return made;
  };

  const holders = [...document.querySelectorAll("figure.chart")].flatMap((figure) => {
    const chart = charts[Number(figure.dataset.chart)];
    if (!chart || (!isLive && !chart.series.some((one) => one.points.length))) return [];
    const holder = { figure, prepared: { ...prepare(chart), hidden: new Set() }, plot: element("div", "drawing"), made: null, width: 0 };
    const { series, names } = holder.prepared;
    const legend = element("div", "legend");
    const at = element("div", "at");
    const values = series.map((one) => {
      const button = element("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const value = element("span", "value");
      const name = element("span", "name", one.name + (one.right ? " (right axis)" : "") + (one.points.length || isLive ? "" : " (no data)"));
      button.append(swatch(one.kind, one.at), name, value);
      button.addEventListener("click", () => {
        const { hidden } = holder.prepared;
        if (hidden.has(one.at)) hidden.delete(one.at); else hidden.add(one.at);
        button.setAttribute("aria-pressed", String(!hidden.has(one.at)));
        show(holder, true);
      });
      legend.append(button);
      return value;
    });
    legend.append(at);
    const tip = element("div", "tip");
    tip.hidden = true;
    tip.style.display = "none";
    // On touch screens the legend shows the values instead.
    let finger = false;
    for (const event of ["pointermove", "pointerdown"]) {
      figure.addEventListener(event, (happened) => { finger = happened.pointerType === "touch"; }, true);
    }
    holder.read = (u, lying) => {
      const { idx, idxs, left, top } = u.cursor;
      // A live page replaces them.
      const { chart, series, names, data } = holder.prepared;
      const inside = idx !== null && idx !== undefined && left >= 0 && top >= 0;
      const where = inside ? (names ? names[idx] : `${sanitize(chart.x.label)} ${number(data[0][idx], chart.x.unit, 4)}`) : "";
      at.textContent = where;
      const read = series.map((one, place) => {
        const index = inside && idxs ? idxs[place + 1] : null;
        const value = index === null || index === undefined ? undefined : data[place + 1][index];
        const text = value === undefined || value === null ? NOTHING : number(value, one.right ? chart.right.unit : chart.y.unit, 4);
        values[place].textContent = inside ? text : "";
        return text;
      });
      if (!inside || finger) {
        tip.style.display = "none";
        return;
      }
      const rows = series.flatMap((one, place) => {
        if (holder.prepared.hidden.has(one.at) || read[place] === NOTHING) return [];
        const row = element("div");
        row.append(swatch(one.kind, one.at), element("span", "clip", one.name), element("span", "value", read[place]));
        return [row];
      });
      const more = rows.length > 12 ? [element("div", "", `… ${rows.length - 12} more in the legend`)] : [];
      tip.replaceChildren(element("b", "clip", where), ...rows.slice(0, 12), ...more);
      tip.hidden = false;
      tip.style.display = "";
      if (tip.parentNode !== u.over) u.over.append(tip);
      const wide = tip.offsetWidth, high = tip.offsetHeight, room = u.over.clientWidth;
      tip.style.left = Math.max(-20, left + 14 + wide <= room ? left + 14 : left - wide - 14) + "px";
      tip.style.top = Math.max(0, Math.min(top + 14, u.over.clientHeight - high)) + "px";
    };
    figure.append(holder.plot, legend);
    return [holder];
  });

  const show = (holder, again, fixed) => {
    const width = fixed || Math.floor(holder.figure.clientWidth);
    if (!width || (!again && width === holder.width)) return;
    holder.width = width;
    if (holder.made) holder.made.destroy();
    holder.made = draw(holder, holder.prepared, width);
  };
  const showAll = (fixed) => holders.forEach((holder) => show(holder, true, fixed));

  // Colors follow the system until the reader chooses.

  const toggle = document.getElementById("theme");
  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches);
  const name = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
  toggle.hidden = false;
  name();
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    showAll();
  });
  darkSystem.addEventListener("change", () => {
    name();
    showAll();
  });

  // Tables sort numbers by value, largest first, and words alphabetically; missing values are last.

  /** Sorts the rows of a table by the column that its heading says. */
  const sort = (table) => {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const at = heads.findIndex((head) => head.hasAttribute("aria-sort"));
    if (at < 0) return;
    const numeric = heads[at].classList.contains("n");
    const rising = heads[at].getAttribute("aria-sort") === "ascending";
    const key = (row) => {
      const cell = row.cells[at];
      if (!numeric) return cell ? cell.textContent : "";
      return cell && cell.dataset.v !== undefined ? Number(cell.dataset.v) : null;
    };
    const compare = (a, b) => (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return rising ? compare(a, b) : compare(b, a);
    });
    body.append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("main table")) {
    for (const head of table.tHead.rows[0].cells) {
      const button = element("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const rising = now ? now === "descending" : !head.classList.contains("n");
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        sort(table);
      });
    }
  }

  // A live page has new data for the same charts and tables, in the same order.

  /** Whether someone reads a chart: the pointer is on it, or it is zoomed. */
  const isRead = ({ figure, made, prepared }) => {
    if (matchMedia("(hover: hover)").matches && figure.querySelector(".plot")?.matches(":hover")) return true;
    const xs = prepared.data[0];
    return Boolean(made && !prepared.names && xs.length && (made.scales.x.min > xs[0] || made.scales.x.max < xs[xs.length - 1]));
  };
  document.addEventListener("oncewire:update", ({ detail }) => {
    for (const holder of holders) {
      const chart = detail.charts[Number(holder.figure.dataset.chart)];
      if (!chart || isRead(holder)) continue;
      const { hidden } = holder.prepared;
      holder.prepared = { ...prepare(chart), hidden };
      show(holder, true);
    }
    document.querySelectorAll("main figure.table").forEach((figure, at) => {
      const table = figure.querySelector("table"), rows = detail.tables[at];
      if (!table || !rows) return;
      const heads = table.tHead.rows[0].cells;
      table.tBodies[0].replaceChildren(...rows.map((cells) => {
        const row = element("tr");
        cells.forEach(([text, value, gauge], column) => {
          const isNumber = heads[column].classList.contains("n");
          const cell = element(column === 0 && !isNumber ? "th" : "td", "", text);
          if (cell.nodeName === "TH") cell.scope = "row";
          cell.classList.toggle("n", isNumber);
          cell.classList.toggle("long", !isNumber && /\S{25}/u.test(text));
          if (value !== null) cell.dataset.v = value;
          if (gauge !== null) {
            cell.classList.add("gauge");
            cell.style.setProperty("--v", gauge.toFixed(1));
          }
          row.append(cell);
        });
        return row;
      }));
      sort(table);
    });
  });

  for (const hint of document.querySelectorAll(".hint")) hint.hidden = false;
  // On narrow screens, the contents are folded, so that the verdict is visible.
  const contents = document.querySelector("nav details");
  if (matchMedia("(max-width: 62rem)").matches) contents.open = false;

  // Printing unfolds details, and draws charts as wide as the sheet in light colors.

  let folded = [];
  addEventListener("beforeprint", () => {
    if (root.classList.contains("printing")) return;
    folded = [...document.querySelectorAll("main details:not([open])")];
    for (const fold of folded) fold.open = true;
    root.classList.add("printing");
    showAll(PRINTED_WIDTH);
  });
  addEventListener("afterprint", () => {
    for (const fold of folded) fold.open = false;
    root.classList.remove("printing");
    showAll();
  });

  showAll();
  const watcher = new ResizeObserver((entries) => {
    if (root.classList.contains("printing")) return;
    requestAnimationFrame(() => {
      for (const entry of entries) {
        const holder = holders.find((one) => one.figure === entry.target);
        if (holder) show(holder, false);
      }
    });
  });
  for (const holder of holders) watcher.observe(holder.figure);
  // For tests.
  root.dataset.drawn = String(holders.length);
})();
