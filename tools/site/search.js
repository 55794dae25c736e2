// The search of the site: it needs no server. The index is fetched when a reader goes to the field.
(() => {
  const form = document.getElementById("search");
  const field = form.querySelector("input");
  const found = document.getElementById("found");
  const up = document.querySelector("script[src$='search.js']").getAttribute("src").replace("search.js", "");
  form.hidden = false;

  let index;
  function load() {
    if (index) return;
    index = document.createElement("script");
    index.src = up + "search-index.js";
    index.onload = show;
    document.head.append(index);
  }
  field.addEventListener("focus", load);
  field.addEventListener("input", () => { load(); show(); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    found.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { field.value = ""; show(); }
    if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  });

  // A section is found if it has all words. A word in a heading counts more than one in the text, and
  // words in their order count more than words apart.
  function score(section, words) {
    const title = section.Page.toLowerCase(), heading = section.Heading.toLowerCase(), text = section.Text.toLowerCase();
    let sum = 0;
    for (const word of words) {
      const times = Math.min(3, text.split(word).length - 1);
      const points = (heading.includes(word) ? 10 : 0) + (title.includes(word) ? 5 : 0) + times;
      if (points === 0) return 0;
      sum += points;
    }
    return sum + ([heading, text].some((part) => part.includes(words.join(" "))) ? 10 : 0);
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.hidden = words.length === 0 || !window.searchIndex;
    if (found.hidden) return;
    const best = window.searchIndex.map((section) => ({ section, points: score(section, words) }))
      .filter((hit) => hit.points > 0).sort((a, b) => b.points - a.points).slice(0, 12);
    found.replaceChildren(...best.map(({ section }) => {
      const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("p");
      link.href = up + section.Address;
      link.textContent = section.Heading === section.Page ? section.Page : `${section.Page}: ${section.Heading}`;
      const lower = section.Text.toLowerCase(), phrase = lower.indexOf(words.join(" "));
      const at = phrase < 0 ? lower.indexOf(words[0]) : phrase;
      const from = section.Text.indexOf(" ", at - 60) + 1; // after a blank, so that it begins with a word
      text.textContent = section.Text.slice(at < 60 ? 0 : from, Math.max(0, at) + 120);
      item.append(link, text);
      return item;
    }));
    if (best.length === 0) {
      const none = document.createElement("li");
      none.textContent = "No page has all of these words.";
      found.append(none);
    }
  }
})();
