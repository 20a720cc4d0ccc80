// Zoom and hints for the map. Text is only set as text: names come from outside.
(() => {
  "use strict";
  const root = document.documentElement;
  const svg = document.querySelector("svg.map");
  if (!svg) return;
  const box = svg.parentNode;
  const WIDTH = 960, LARGEST = 24, PRINTED_WIDTH = 670;
  let HEIGHT = svg.viewBox.baseVal.height;
  const number = (one, name) => Number(one.getAttribute(name));

  const lines = (one) => {
    const title = one.querySelector("title");
    const text = title ? title.textContent.split("\n") : [];
    // The browser's own hint would cover this one.
    if (title) title.remove();
    return text;
  };
  let pops, names, order, wires, degrees;
  const collect = () => {
    pops = [];
    for (const one of svg.querySelectorAll(".pops > g")) {
      pops[Number(one.dataset.p)] = { one, x: Number(one.dataset.x), y: Number(one.dataset.y), reach: Number(one.dataset.r), text: lines(one) };
    }
    names = [...svg.querySelectorAll(".names text")].map((one) => {
      return { one, pop: pops[Number(one.dataset.p)] };
    });
    // In the order of drawing: largest PoPs first.
    order = [...svg.querySelectorAll(".pops > g")].map((one) => names[Number(one.dataset.p)]);
    wires = [...svg.querySelectorAll(".wires line")].map((one) => ({ one, a: pops[Number(one.dataset.a)], b: pops[Number(one.dataset.b)], text: lines(one) }));
    degrees = [...svg.querySelectorAll(".degrees > *")].map((one) => {
      const line = one.tagName === "line", across = one.dataset.axis === "x";
      const from = number(one, across ? (line ? "x1" : "x") : line ? "y1" : "y");
      return { one, across, from, size: one.tagName === "rect" ? number(one, across ? "width" : "height") : 0 };
    });
    // For tests.
    root.dataset.map = `${pops.length} ${wires.length}`;
  };
  collect();

  // Zooming moves places; sizes change little.
  let width = WIDTH, height = HEIGHT, zoom = 1, left = 0, top = 0;
  const inches = (unzoomed) => Math.max(0.55, Math.min(1.6, Math.sqrt(unzoomed)));
  const X = (x) => (x * zoom * width) / WIDTH - left;
  const Y = (y) => (y * zoom * width) / WIDTH - top;
  let sizes = 1;

  const show = () => {
    const scale = (zoom * width) / WIDTH;
    height = (HEIGHT * width) / WIDTH;
    left = Math.max(0, Math.min(left, WIDTH * scale - width));
    top = Math.max(0, Math.min(top, HEIGHT * scale - height));
    sizes = inches(scale);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.classList.toggle("large", zoom > 1);
    let last = 0;
    for (const { one, across, from, size } of degrees) {
      const at = across ? X(from) : Y(from);
      const set = (pairs) => { for (const [name, value] of Object.entries(pairs)) one.setAttribute(name, value); };
      if (one.tagName === "line") set(across ? { x1: at, x2: at, y2: height } : { y1: at, y2: at, x2: width });
      else if (one.tagName === "rect") set(across ? { x: at, width: size * scale, height } : { y: at, height: size * scale, width });
      else {
        one.setAttribute(across ? "x" : "y", at);
        // Labels at the top do not overlap each other or those at the left.
        const tight = across ? at < last + 44 : at < 22;
        if (across && !tight) last = at;
        one.classList.toggle("tight", tight);
      }
    }
    for (const { one, a, b } of wires) {
      one.setAttribute("x1", X(a.x));
      one.setAttribute("y1", Y(a.y));
      one.setAttribute("x2", X(b.x));
      one.setAttribute("y2", Y(b.y));
    }
    for (const { one, x, y } of pops) one.setAttribute("transform", `translate(${X(x)} ${Y(y)}) scale(${sizes})`);
    label();
  };

  // As map::names in Rust: beside its PoP, covering no other name or PoP. The largest may cover small PoPs.
  const FIRST = 14, SIZE = 11;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = SIZE + "px " + getComputedStyle(svg).fontFamily;
  const widths = new Map();
  const wideness = (one) => {
    if (!widths.has(one.textContent)) widths.set(one.textContent, pen.measureText(one.textContent).width + 1);
    return widths.get(one.textContent);
  };
  const taken = () => {
    const all = new Map();
    const cells = (area, then) => {
      for (let x = Math.floor(area[0] / 60); x <= Math.floor(area[2] / 60); x += 1)
        for (let y = Math.floor(area[1] / 60); y <= Math.floor(area[3] / 60); y += 1) if (then(x + ":" + y)) return true;
      return false;
    };
    return {
      take: (area) => cells(area, (key) => { if (all.has(key)) all.get(key).push(area); else all.set(key, [area]); return false; }),
      free: (area) => !cells(area, (key) => (all.get(key) || []).some((other) => area[0] < other[2] && other[0] < area[2] && area[1] < other[3] && other[1] < area[3])),
    };
  };
  const label = () => {
    const dots = taken(), large = taken(), texts = taken();
    const seen = (pop) => X(pop.x) > -20 && X(pop.x) < width + 20 && Y(pop.y) > -20 && Y(pop.y) < height + 20;
    order.filter(({ pop }) => seen(pop)).forEach(({ pop }, rank) => {
      const x = X(pop.x), y = Y(pop.y), reach = pop.reach * sizes - 0.5, area = [x - reach, y - reach, x + reach, y + reach];
      dots.take(area);
      if (rank < FIRST) large.take(area);
    });
    let rank = 0;
    for (const { one, pop } of order) {
      let found = null;
      if (seen(pop)) {
        const x = X(pop.x), y = Y(pop.y), wide = wideness(one), gap = pop.reach * sizes + 3, slant = gap * 0.75;
        const places = [[x + gap, y + 4, "start"], [x - gap, y + 4, "end"], [x, y - gap - 1, "middle"], [x, y + gap + 8, "middle"],
          [x + slant, y - slant, "start"], [x + slant, y + slant + 7, "start"], [x - slant, y - slant, "end"], [x - slant, y + slant + 7, "end"]];
        if (!degrees.length && x < width / 2) places.unshift(places.splice(1, 1)[0]);
        for (const obstacles of rank < FIRST ? [dots, large] : [dots]) {
          found = found || places.find(([px, py, anchor]) => {
            const from = anchor === "start" ? px : anchor === "end" ? px - wide : px - wide / 2;
            const area = [from, py - SIZE * 0.8, from + wide, py + SIZE * 0.25];
            if (area[0] < 2 || area[2] > width - 2 || area[1] < 2 || area[3] > height - 2 || !obstacles.free(area) || !texts.free(area)) return false;
            texts.take(area);
            return true;
          });
        }
        rank += 1;
      }
      if (found) {
        one.setAttribute("x", found[0]);
        one.setAttribute("y", found[1]);
        one.setAttribute("text-anchor", found[2]);
      }
      one.classList.toggle("crowded", !found);
    }
  };

  const fit = (fixed) => {
    const now = fixed || box.clientWidth;
    if (!now) return;
    const by = now / width;
    width = now;
    left *= by;
    top *= by;
    show();
  };
  const enlarge = (by, x, y) => {
    const next = Math.max(1, Math.min(LARGEST, zoom * by));
    left = (left + x) * (next / zoom) - x;
    top = (top + y) * (next / zoom) - y;
    zoom = next;
    hide();
    show();
  };
  for (const button of document.querySelectorAll(".zoom button")) {
    button.parentNode.hidden = false;
    button.addEventListener("click", () => {
      const way = Number(button.dataset.zoom);
      enlarge(way ? 1.6 ** way : 1 / zoom, width / 2, height / 2);
    });
  }
  const place = (event) => {
    const at = svg.getBoundingClientRect();
    return [event.clientX - at.left, event.clientY - at.top];
  };
  svg.addEventListener("dblclick", (event) => enlarge(2, ...place(event)));
  // Without a modifier, the wheel scrolls the page.
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    enlarge(1.002 ** -event.deltaY, ...place(event));
  }, { passive: false });

  // The hint for the nearest PoP, or else for the nearest link.

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.style.display = "none";
  box.append(tip);
  let lit = null, dragged = null;
  const hide = () => {
    tip.style.display = "none";
    if (lit) lit.one.classList.remove("lit");
    lit = null;
  };
  const find = (x, y) => {
    let best = null, least = 5;
    for (const pop of pops) {
      const far = Math.hypot(X(pop.x) - x, Y(pop.y) - y) - pop.reach * sizes;
      if (far < least) { least = far; best = pop; }
    }
    if (best) return best;
    least = 7;
    for (const wire of wires) {
      const ax = X(wire.a.x), ay = Y(wire.a.y), dx = X(wire.b.x) - ax, dy = Y(wire.b.y) - ay;
      const along = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
      const far = Math.hypot(ax + along * dx - x, ay + along * dy - y);
      if (far <= least) { least = far; best = wire; }
    }
    return best;
  };
  const point = (x, y) => {
    const found = find(x, y);
    if (found !== lit) {
      hide();
      if (!found) return;
      lit = found;
      found.one.classList.add("lit");
      tip.replaceChildren(...found.text.map((text, at) => {
        const line = document.createElement(at ? "div" : "b");
        if (text.startsWith(" ")) line.className = "in";
        line.textContent = text.trim();
        return line;
      }));
      tip.style.display = "";
    }
    if (!lit) return;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = Math.max(0, Math.min(x + 14 + wide <= width ? x + 14 : x - wide - 14, width - wide)) + "px";
    tip.style.top = Math.max(0, Math.min(y + 14, height - high)) + "px";
  };
  svg.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!dragged) {
      point(x, y);
      return;
    }
    left -= x - dragged[0];
    top -= y - dragged[1];
    dragged = [x, y];
    show();
  });
  svg.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    point(x, y);
    if (zoom === 1 || event.button) return;
    dragged = [x, y];
    svg.setPointerCapture(event.pointerId);
    svg.classList.add("moving");
  });
  for (const event of ["pointerup", "pointercancel"]) {
    svg.addEventListener(event, () => {
      dragged = null;
      svg.classList.remove("moving");
    });
  }
  svg.addEventListener("pointerleave", hide);

  let kept = null;
  addEventListener("beforeprint", () => {
    hide();
    if (kept) return;
    kept = [zoom, left, top];
    [zoom, left, top] = [1, 0, 0];
    fit(PRINTED_WIDTH);
  });
  addEventListener("afterprint", () => {
    if (!kept) return;
    fit();
    [zoom, left, top] = kept;
    kept = null;
    show();
  });
  new ResizeObserver(() => {
    if (!root.classList.contains("printing") && box.clientWidth !== width) fit();
  }).observe(box);
  fit();

  // A live page gets the whole drawing anew, and keeps its zoom. What is parsed runs no script, and names in it are text.
  let shown = null;
  document.addEventListener("oncewire:update", (event) => {
    const drawing = event.detail.maps[0];
    if (drawing === undefined || drawing === shown || dragged) return;
    shown = drawing;
    const made = new DOMParser().parseFromString(drawing, "text/html");
    const next = made.querySelector("svg.map"), key = made.querySelector(".key");
    if (!next || !key) return;
    hide();
    HEIGHT = next.viewBox.baseVal.height;
    svg.setAttribute("aria-label", next.getAttribute("aria-label"));
    svg.replaceChildren(...next.children);
    box.parentNode.querySelector(".key").replaceChildren(...key.children);
    collect();
    show();
  });
})();
