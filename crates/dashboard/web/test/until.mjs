/** Waits until `condition`, asked again and again, is true, and returns its value. */
export async function until(condition, what = 'the condition', seconds = 10) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not come true in ${seconds} s`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
