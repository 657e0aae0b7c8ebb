// How tables of the page use its width: long names may break where a reader would break them, and
// a table that is wider than its place says that it scrolls.
//
// setUpTables({make}) returns {broken(text), watch(scroll)}.
"use strict";

/* exported setUpTables */
function setUpTables({make}) {
  // The text, which may be broken behind "_", "/", "," and "=": a fragment, as it may stand once.
  function broken(text) {
    const place = document.createDocumentFragment();
    for (const part of String(text).match(/[^_/,=]*[_/,=]+|[^_/,=]+$/g) || [])
      place.append(...(place.firstChild ? [document.createElement("wbr"), part] : [part]));
    return place;
  }

  // Whether more columns lie to the right of what is seen: the caption says so, and an edge is
  // shaded. A pixel less is nothing: sizes are rounded.
  function show(scroll) {
    const hidden = scroll.scrollWidth - scroll.clientWidth;
    scroll.classList.toggle("more", hidden - scroll.scrollLeft > 1);
    const hint = scroll.querySelector(".hint");
    if (hint) hint.hidden = hidden <= 1;
  }
  const sizes = new ResizeObserver(entries => entries.forEach(entry => {
    const scroll = entry.target.closest(".scroll");
    if (scroll) show(scroll);
  }));

  // Keeps the caption of a table within what is seen of it, and says when the table scrolls.
  function watch(scroll) {
    const caption = scroll.querySelector("caption");
    if (caption)
      caption.replaceChildren(make("div", {class: "caption"}, ...caption.childNodes,
        make("span", {class: "hint", hidden: ""}, " (scrolls sideways: more columns \u2192)")));
    scroll.addEventListener("scroll", () => show(scroll), {passive: true});
    sizes.observe(scroll);
    sizes.observe(scroll.querySelector("table"));
  }

  for (const scroll of document.querySelectorAll(".scroll")) watch(scroll);  // attest made them
  return {broken, watch};
}
