// Shows the cards of the kind whose button was pressed.
for (const button of document.querySelectorAll(".kinds button"))
  button.addEventListener("click", () => {
    for (const card of document.querySelectorAll(".cards .card"))
      card.hidden = button.dataset.kind !== "" && !card.dataset.kinds.split("|").includes(button.dataset.kind);
    for (const other of document.querySelectorAll(".kinds button")) other.classList.toggle("on", other === button);
  });
