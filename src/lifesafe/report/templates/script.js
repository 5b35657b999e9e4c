"use strict";
// The page shows its essentials without this. It adds: earlier moments of the plane of targets, tips at the pointer, the
// choice between light and dark, and, while a run is watched, news from the server.
(() => {
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  let version = document.body.dataset.version;

  root.classList.add("script");

  // Show what was believed at a moment: the shapes of each are on the page.
  function show(at) {
    const thumbs = all(".thumb");
    const thumb = thumbs.find((each) => Number(each.dataset.at) === at);
    if (!thumb) return;
    find("moment-caption").textContent = thumb.dataset.caption;
    thumbs.forEach((each) => each.setAttribute("aria-current", String(each === thumb)));
    all(".view svg.chart").forEach((svg) => {
      const view = svg.closest(".view").dataset.view;
      svg.querySelectorAll("use").forEach((use) => use.setAttribute("href", `#plane-${view}-${at}-${use.dataset.kind}`));
      svg.querySelectorAll("[data-from]").forEach((mark) => mark.classList.toggle("later", Number(mark.dataset.from) > at));
      svg.querySelectorAll("[data-moment]").forEach((mark) => mark.classList.toggle("off", Number(mark.dataset.moment) !== at));
    });
  }

  function shown() {
    const thumb = document.querySelector('.thumb[aria-current="true"]');
    return thumb ? Number(thumb.dataset.at) : -1;
  }

  function last() { return all(".thumb").length - 1; }

  function choose(view) {
    all(".view").forEach((block) => { block.hidden = block.dataset.view !== view; });
  }

  // Tips of the browser are slow and small: take their texts over.
  function take_tips() {
    all("main svg title").forEach((title) => {
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
    if (event.target.id === "plane-view") choose(event.target.value);
  });
  document.addEventListener("click", (event) => {
    const thumb = event.target.closest(".thumb");
    if (event.target.id === "theme") turn();
    else if (thumb) show(Number(thumb.dataset.at));
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
    before_print = shown();
    show(last());
    all("details").forEach((part) => { part.dataset.was = part.open; part.open = true; });
  });
  addEventListener("afterprint", () => {
    show(before_print);
    all("details").forEach((part) => { part.open = part.dataset.was === "true"; });
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
    const at = shown();
    const newest = at === last();
    const view = find("plane-view") ? find("plane-view").value : null;
    const open = all("details").map((part) => part.open);
    const focus = document.activeElement ? document.activeElement.id : "";
    version = fresh.body.dataset.version;
    document.title = fresh.title;
    find("main").replaceWith(document.adoptNode(fresh.getElementById("main")));
    take_tips();
    all("details").forEach((part, i) => { part.open = Boolean(open[i]); });
    if (view !== null && find("plane-view")) { find("plane-view").value = view; choose(view); }
    if (!newest) show(at);
    if (focus && find(focus)) find(focus).focus({ preventScroll: true });
  }

  async function watch() {
    try {
      const answer = await fetch("/state", { cache: "no-store" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const state = await answer.json();
      if (state.version !== version) await renew();
      say(state.notice, state.tone);
    } catch (error) {
      say("The server does not answer any more; this page shows what was known last.", "warn");
    }
    setTimeout(watch, 1500);
  }

  take_tips();
  if (document.body.dataset.live === "yes") watch();
})();
