import { afterAll, beforeAll, beforeEach, describe } from 'vitest'
import { BehindProxy } from '../support/behind-proxy.ts'
import { CHECK_PROXIES, type CheckProxy } from '../support/check-proxies.ts'
import { has } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

/** Envoy is installed, and Traefik built, once per machine. */
export const INSTALL_MS = 1_800_000

export interface Shared {
  readonly world: World
  readonly key: IssuedKey
}

/** One world and one key for all proxies of a test file. @returns a way to them, for tests */
export function shareWorld(): () => Shared {
  let world: World
  let key: IssuedKey
  beforeAll(async () => {
    world = await startWorld()
    key = await world.issue()
  })
  afterAll(() => world?.stop())
  return () => ({ world, key })
}

/** @returns the way to a proxy that stands before the tests of a suite, for these tests */
export function standBehind(proxy: CheckProxy, shared: () => Shared): () => BehindProxy {
  let behind: BehindProxy
  beforeAll(async () => {
    behind = await BehindProxy.start(proxy, shared().world, shared().key)
  }, INSTALL_MS)
  afterAll(() => behind?.stop())
  beforeEach(() => behind.upstream.reset())
  return () => behind
}

/** The proxies at once, since their tests mostly wait; the tests of one by one, since they watch its upstream. */
export function describeEachProxy(
  shared: () => Shared,
  tests: (proxy: CheckProxy, behind: () => BehindProxy) => void,
): void {
  describe.each(CHECK_PROXIES)('behind $kind', { concurrent: true }, proxy => {
    describe.skipIf(!has(proxy.tool))(
      'with its configuration in docs/check-mode.md',
      { concurrent: false },
      () => tests(proxy, standBehind(proxy, shared)),
    )
  })
}
