/** stays returns what says whether the keyboard is still where it is now, or nowhere: what took a while takes it from no one who went elsewhere meanwhile. */
export function stays(): () => boolean {
  const before = document.activeElement;
  return () => document.activeElement === before || document.activeElement === document.body;
}
