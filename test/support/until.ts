const DEADLINE_MS = 10_000
const PAUSE_MS = 5

/** Asks again and again until the answer is there. A test that waits says for what, never for how long. */
export async function until<Value>(
  what: string,
  ask: () => Value | Promise<Value>,
  timeoutMs = DEADLINE_MS,
): Promise<NonNullable<Exclude<Value, false>>> {
  const endMs = performance.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== false && answer !== null && answer !== undefined) {
      // What is left of the type once these three are excluded, which the compiler can't see for itself.
      return answer as NonNullable<Exclude<Value, false>>
    }
    if (performance.now() > endMs) throw new Error(`Waited in vain until ${what}`)
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
  }
}

/** Lets everything run that waits for nothing outside this process. */
export function settled(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
