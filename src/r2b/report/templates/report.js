"use strict";
// The page says everything without this script. It adds sorting, a cursor on the frontier, and opens what is folded when the page is printed.
document.querySelectorAll("table[data-sort]").forEach(table => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const worth = cell => parseFloat(cell.textContent.replace(/[,<]/g, ""));
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const named = place === 0 || head.classList.contains("left"), now = head.getAttribute("aria-sort");
      const down = now === null ? !named : now === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = named
        ? (a, b) => a.cells[place].textContent.localeCompare(b.cells[place].textContent, undefined, { numeric: true })
        : (a, b) => worth(a.cells[place]) - worth(b.cells[place]);
      [...body.rows].sort((a, b) => down ? compare(b, a) : compare(a, b)).forEach(row => body.append(row));
    });
  });
});
const data = document.getElementById("frontier-data");
if (data) {
  const { places, captions } = JSON.parse(data.textContent);
  const picture = document.querySelector("svg.frontier"), cursor = picture.querySelector(".cursor");
  const slider = document.getElementById("epsilon"), output = document.getElementById("caption");
  const show = place => {
    const [x, y] = places[place];
    cursor.setAttribute("visibility", "visible");
    cursor.querySelector("line").setAttribute("transform", `translate(${x} 0)`);
    cursor.querySelector("circle").setAttribute("transform", `translate(${x} ${y})`);
    slider.value = place;
    slider.setAttribute("aria-valuetext", captions[place]);
    output.textContent = captions[place];
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  picture.addEventListener("pointermove", event => {
    const box = picture.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * picture.viewBox.baseVal.width;
    let nearest = 0;
    places.forEach((place, i) => { if (Math.abs(place[0] - x) < Math.abs(places[nearest][0] - x)) nearest = i; });
    show(nearest);
  });
  document.querySelectorAll(".control").forEach(each => { each.hidden = false; });
  document.getElementById("points").open = false;
  show(Number(slider.value));
}
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach(each => { each.open = true; });
});
addEventListener("afterprint", () => opened.forEach(each => { each.open = false; }));
