// Keeps a page up to date: asks for new data, and puts it in the places of the old. Text is only set as text.
(() => {
  "use strict";
  const root = document.documentElement;
  const SECOND = 1000;
  const state = document.getElementById("live"), pause = document.getElementById("pause");
  const price = document.getElementById("price"), wrong = document.getElementById("wrong");
  let paused = false, timer = 0, last = null, asking = null;

  const element = (name, text) => {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  };
  /** Changes text only if it differs, so that a selection stays. */
  const put = (place, text) => {
    if (place && place.textContent !== text) place.textContent = text;
  };
  /** Text between backticks is a command. */
  const reason = (text) => {
    const item = document.createElement("li");
    text.split("`").forEach((part, at) => item.append(at % 2 ? element("code", part) : part));
    return item;
  };

  // The price is in the fragment, so that a bookmark keeps it and no server log has it.
  const ofFragment = () => {
    const found = /^#price=(.*)$/.exec(location.hash);
    try {
      return found ? decodeURIComponent(found[1]) : null;
    } catch {
      return null;
    }
  };
  const fragment = ofFragment();
  if (fragment !== null) price.value = fragment;

  const show = (data) => {
    if (data.shape !== root.dataset.shape) {
      // There are other charts or tables now. Not while someone writes.
      if (document.activeElement !== price) location.reload();
      return;
    }
    const verdict = document.getElementById("verdict");
    put(document.querySelector("header .about"), data.about);
    put(verdict.querySelector(".headline"), data.headline);
    verdict.classList.toggle("nothing", !data.positive);
    verdict.querySelectorAll(".facts > div").forEach((place, at) => {
      const [value, note] = data.facts[at];
      const dd = place.querySelector("dd");
      if (dd.firstChild && dd.firstChild.nodeType === Node.TEXT_NODE) put(dd.firstChild, value);
      else dd.prepend(value);
      put(dd.querySelector("small"), note);
    });
    const reasons = verdict.querySelector(".reasons");
    if (reasons) reasons.replaceChildren(...data.reasons.map(reason));
    document.dispatchEvent(new CustomEvent("oncewire:update", { detail: data }));
  };

  const say = (text, failed) => {
    put(state, text);
    state.classList.toggle("failed", failed);
  };
  const ask = async () => {
    clearTimeout(timer);
    if (asking) asking.abort();
    const mine = asking = new AbortController();
    const limit = setTimeout(() => mine.abort(), 10 * SECOND);
    try {
      const answer = await fetch(root.dataset.live + "?price=" + encodeURIComponent(price.value), { signal: mine.signal, cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const data = await answer.json();
      if (mine !== asking) return;
      last = Date.now();
      put(wrong, data.problem || "");
      price.setAttribute("aria-invalid", String(Boolean(data.problem)));
      show(data);
      if (!paused) say("Live", false);
      root.dataset.updates = String(Number(root.dataset.updates || 0) + 1);
    } catch {
      if (mine !== asking) return;
      const ago = last === null ? "" : ` for ${Math.round((Date.now() - last) / SECOND)} s`;
      say(`No answer${ago}; still asking`, true);
    } finally {
      clearTimeout(limit);
    }
    // Nobody sees a hidden page.
    if (mine === asking && !paused && !document.hidden) timer = setTimeout(ask, SECOND);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
    say(paused ? "Paused" : "Live", false);
    if (paused) clearTimeout(timer); else ask();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) ask();
  });
  price.form.hidden = "none" in price.form.dataset;
  price.form.addEventListener("submit", (happened) => happened.preventDefault());
  price.addEventListener("change", () => {
    history.replaceState(null, "", price.value ? "#price=" + encodeURIComponent(price.value) : location.pathname);
    ask();
  });
  last = Date.now();
  ask();
})();
