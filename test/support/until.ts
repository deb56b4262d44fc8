const POLL_MS = 5

/** Waits for a condition, and fails by its name where it does not come true in time. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Not within ${timeoutMs} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, POLL_MS))
  }
}

/** Lets everything run that waits for nothing outside this process. */
export function settled(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
