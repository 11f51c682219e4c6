/**
 * sheetElement stands in for a <style> element where the content security policy
 * allows none: its text becomes an adopted style sheet of the page, for as long
 * as it is not removed.
 */
export function sheetElement(): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const element = document.createElement("template");
  const remove = (): void => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
    Element.prototype.remove.call(element);
  };
  Object.defineProperties(element, {
    textContent: { set: (css: string) => sheet.replaceSync(css) },
    remove: { value: remove },
  });
  return element;
}
