import { setFlagsFromString } from 'node:v8'

/**
 * Gives back what only the start needed: parsed sources and settings, and the room that the heap's young part took for
 * them. V8 does so by itself only where memory is short. It takes some tens of milliseconds in which nothing else runs.
 * Under load the young part is to have its size again at once and not after a minute, in which each request would cost a
 * tenth more: V8 doubles it when as much as it holds has outlived its collections, which is little, and makes it small
 * again whenever nobody asks for a while.
 * @throws where Node was built without its inspector, the one public way to ask for this
 */
export async function collectGarbage(): Promise<void> {
  const { Session } = await import('node:inspector')
  const session = new Session()
  session.connect()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  session.post('HeapProfiler.collectGarbage', error => (error === null ? resolve() : reject(error)))
  await promise.finally(() => session.disconnect())
  setFlagsFromString('--semi-space-growth-factor=64')
}
