"use strict";
// Moves the overlay through time; without this script it shows the whole run. Unfolds details for
// printing.
(() => {
  const folded = () => document.querySelectorAll("details:not([open], :has([data-file]))");
  const unfolded = () => document.querySelectorAll("details[data-unfolded]");
  addEventListener("beforeprint", () => folded().forEach((each) => {
    each.open = true;
    each.dataset.unfolded = "";
  }));
  addEventListener("afterprint", () => unfolded().forEach((each) => {
    each.open = false;
    delete each.dataset.unfolded;
  }));
  const store = document.getElementById("loads");
  if (!store) return;
  const data = JSON.parse(store.textContent);
  const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno";
  const links = [...document.querySelectorAll("#map-links > *")];
  const sites = [...document.querySelectorAll("#map-sites > *")];
  const [slider, play, now] = ["when", "play", "now"].map((id) => document.getElementById(id));
  const cursor = document.getElementById("cursor");
  const kind = links[0].tagName === "g" ? "load" : "level";
  const titles = links.map((link) => link.querySelector("title"));
  const given = links.map((link, index) => [link.getAttribute("class"), titles[index]?.textContent]);
  const whole = now.textContent;
  let timer = 0;

  const level = (share) => data.levels.filter((least) => share >= least).length;

  function link(index, letter) {
    const cut = letter === "-";
    const share = cut ? 0 : letters.indexOf(letter) / 50;
    links[index].setAttribute("class", `link ${kind}-${cut ? "cut" : level(share)}`);
    const what = cut ? "cut" : `${Math.round(share * 100)} %`;
    if (titles[index]) titles[index].textContent = `${data.links[index]}: ${what}`;
    return share;
  }

  function words(step, shares) {
    const busy = shares.filter((share) => share >= data.levels[0]).length;
    const cut = [...data.loads[step]].filter((letter) => letter === "-").length;
    const most = shares.indexOf(Math.max(...shares));
    const span = `${(step * data.step).toFixed(2)} to ${((step + 1) * data.step).toFixed(2)} s`;
    const top = busy ? `, most on ${data.links[most]}: ${Math.round(shares[most] * 100)} %` : "";
    return `${span}: ${busy} of ${links.length} links busy${top}${cut ? `, ${cut} cut` : ""}`;
  }

  function show() {
    const step = slider.value - 1;
    if (step < 0) {
      links.forEach((each, index) => {
        each.setAttribute("class", given[index][0]);
        if (titles[index]) titles[index].textContent = given[index][1];
      });
      sites.forEach((site) => site.setAttribute("class", "site doing-all"));
      now.textContent = whole;
    } else {
      const shares = [...data.loads[step]].map((letter, index) => link(index, letter));
      sites.forEach((site, index) =>
        site.setAttribute("class", `site doing-${data.doing[step][index]}`));
      now.textContent = words(step, shares);
    }
    slider.setAttribute("aria-valuetext", now.textContent);
    if (cursor) {
      const [left, right] = [Number(cursor.dataset.left), Number(cursor.dataset.right)];
      const shift = ((step + 0.5) / data.loads.length) * (right - left);
      cursor.toggleAttribute("hidden", step < 0);
      cursor.setAttribute("transform", `translate(${Math.max(0, shift)} 0)`);
    }
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (slider.value === slider.max) stop();
    }, 150);
  });
  slider.addEventListener("input", () => { stop(); show(); });
  document.querySelectorAll("#overlay [hidden]").forEach((each) => each.removeAttribute("hidden"));
  slider.value = 0;
  show();
})();
