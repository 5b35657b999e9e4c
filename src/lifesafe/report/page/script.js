"use strict";
// The page shows its essentials without this. It adds: the slider over trials, tips at the pointer, the choice between
// light and dark, and, while a run is watched, news from the server.
(() => {
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  let data = JSON.parse(find("data").textContent);
  let moment = 0; // trials told at the moment shown, from 1; 0 if there is none
  let timer = null;

  root.classList.add("script");

  // The shape of a kind at a moment: 0 stands for "as before".
  function shape(frames, at, kind) {
    while (at >= 0 && frames[at][kind] === 0) at -= 1;
    return at < 0 ? "" : frames[at][kind];
  }

  function show(at) {
    if (!data.captions.length) return;
    moment = Math.min(Math.max(at, 1), data.captions.length);
    const last = moment - 1;
    const slider = find("moment");
    if (slider) {
      slider.value = moment;
      slider.setAttribute("aria-valuetext", data.captions[last]);
      find("moment-number").textContent = moment;
    }
    find("moment-caption").textContent = data.captions[last];
    document.querySelectorAll(".view").forEach((block) => {
      const view = data.views[Number(block.dataset.view)];
      block.querySelectorAll("svg.plane").forEach((svg) => draw(svg, view, last));
      block.querySelectorAll(".thumb").forEach((thumb) => {
        thumb.setAttribute("aria-current", String(Number(thumb.dataset.at) === last));
      });
    });
  }

  function draw(svg, view, last) {
    ["closed", "frontier", "safe"].forEach((name, kind) => {
      svg.querySelector(`[data-kind="${name}"]`).setAttribute("d", shape(view.frames, last, kind));
    });
    svg.querySelectorAll("[data-at]").forEach((mark) => {
      mark.classList.toggle("later", Number(mark.dataset.at) > last);
      mark.classList.toggle("now", Number(mark.dataset.at) === last);
    });
    const star = svg.querySelector(".star");
    const best = view.best[last];
    star.classList.toggle("off", !best);
    if (best) {
      const { left, bottom, across, up } = svg.dataset;
      star.setAttribute("transform", `translate(${+left + best[0] * across} ${+bottom - best[1] * up})`);
    }
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    const button = find("play");
    if (button) { button.textContent = "Play"; button.setAttribute("aria-pressed", "false"); }
  }

  function play() {
    if (timer !== null) { stop(); return; }
    const button = find("play");
    button.textContent = "Pause";
    button.setAttribute("aria-pressed", "true");
    show(moment >= data.captions.length ? 1 : moment + 1);
    timer = setInterval(() => {
      if (moment >= data.captions.length) stop(); else show(moment + 1);
    }, 450);
  }

  function choose(view) {
    document.querySelectorAll(".view").forEach((block) => { block.hidden = block.dataset.view !== view; });
  }

  // Tips of the browser are slow and small: take their texts over.
  function take_tips() {
    document.querySelectorAll("main svg title").forEach((title) => {
      title.parentNode.dataset.tip = title.textContent;
      title.remove();
    });
  }

  function tip(event) {
    const box = find("tip");
    const from = event.target.closest ? event.target.closest("[data-tip]") : null;
    box.hidden = !from;
    if (!from) return;
    box.textContent = from.dataset.tip;
    const place = box.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - place.width - 8);
    const y = event.clientY + 16 + place.height > innerHeight ? event.clientY - place.height - 10 : event.clientY + 16;
    box.style.left = `${Math.max(x, 8)}px`;
    box.style.top = `${y}px`;
  }

  document.addEventListener("input", (event) => {
    if (event.target.id === "moment") { stop(); show(Number(event.target.value)); }
    if (event.target.id === "plane-view") choose(event.target.value);
  });
  document.addEventListener("click", (event) => {
    const thumb = event.target.closest(".thumb");
    if (event.target.id === "play") play();
    else if (event.target.id === "theme") turn();
    else if (thumb) { stop(); show(Number(thumb.dataset.at) + 1); }
    if (!event.target.closest("[data-tip]")) find("tip").hidden = true;
  });
  document.addEventListener("pointerover", tip);
  document.addEventListener("scroll", () => { find("tip").hidden = true; }, { passive: true });

  function turn() {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  // Print shows everything as it is in the end.
  let before_print = 0;
  addEventListener("beforeprint", () => {
    before_print = moment;
    show(data.captions.length);
    document.querySelectorAll("details").forEach((part) => { part.dataset.was = part.open; part.open = true; });
  });
  addEventListener("afterprint", () => {
    show(before_print);
    document.querySelectorAll("details").forEach((part) => { part.open = part.dataset.was === "true"; });
  });

  // While a run is watched: ask for news, and put the new page in place of the old, which stays as the reader left it.
  function say(text, tone) {
    const line = find("live");
    line.hidden = !text;
    if (line.textContent !== text) line.textContent = text;
    line.dataset.tone = tone;
  }

  async function renew() {
    const answer = await fetch("/", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const newest = moment === data.captions.length;
    const at = moment;
    const view = find("plane-view") ? find("plane-view").value : null;
    const open = [...document.querySelectorAll("details")].map((part) => part.open);
    const focus = document.activeElement ? document.activeElement.id : "";
    const running = timer !== null;
    data = JSON.parse(fresh.getElementById("data").textContent);
    document.title = fresh.title;
    find("main").replaceWith(document.adoptNode(fresh.getElementById("main")));
    take_tips();
    document.querySelectorAll("details").forEach((part, i) => { part.open = Boolean(open[i]); });
    if (view !== null && find("plane-view")) { find("plane-view").value = view; choose(find("plane-view").value); }
    show(newest && !running ? data.captions.length : at);
    if (running && find("play")) { find("play").textContent = "Pause"; find("play").setAttribute("aria-pressed", "true"); }
    if (focus && find(focus)) find(focus).focus({ preventScroll: true });
  }

  async function watch() {
    try {
      const answer = await fetch("/state", { cache: "no-store" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const state = await answer.json();
      if (state.version !== data.version) await renew();
      say(state.notice, state.tone);
    } catch (error) {
      say("The server does not answer any more; this page shows what was known last.", "warn");
    }
    setTimeout(watch, 1500);
  }

  take_tips();
  show(data.captions.length);
  if (document.body.dataset.live === "yes") watch();
})();
