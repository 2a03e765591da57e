// Pictures follow the page's theme: they look at data-theme of the root element, Furo sets it on the body.
document.addEventListener("DOMContentLoaded", () => {
  const follow = () => {
    const theme = document.body.dataset.theme;
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  new MutationObserver(follow).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  follow();
  // Furo's captions of the contents are headings that do not say their level.
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  // What scrolls sideways can be reached by keyboard.
  for (const box of document.querySelectorAll("div.highlight > pre, .table-wrapper")) box.tabIndex = 0;
});
