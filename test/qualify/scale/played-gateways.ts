import { loadConfig } from '../../../src/config/load-config.ts'
import { neverReloads } from '../../../src/config/reloadable.ts'
import type { Config } from '../../../src/config/schema/schema.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { createKeyStore, type RunningKeyStore } from '../../../src/keys/create-key-store.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { usageRequest } from '../../support/usage-request.ts'
import type { ScaleRegion, ScaleWorld, StoredKeyName } from './world.ts'

/** Started together: many more would be a test of this process. */
const STARTED_TOGETHER = 25
/** Requests that a gateway counts each second. */
const REQUESTS_PER_SECOND = 5

/**
 * Gateways as a control plane knows them: the real subscription, lookups, confirmations and usage reports of each, over
 * connections of its own. Only their clients and their upstream are left out.
 */
export class PlayedGateways {
  readonly stores: readonly RunningKeyStore[]
  /** Of all gateways together. */
  readonly metrics: Metrics
  #traffic: NodeJS.Timeout | undefined

  private constructor(stores: readonly RunningKeyStore[], metrics: Metrics) {
    this.stores = stores
    this.metrics = metrics
  }

  /**
   * Starts them in turn in each region, and waits until the console knows them all.
   * @param maxEntries keys that each holds in memory
   */
  static async start(world: ScaleWorld, count: number, maxEntries = 1_000): Promise<PlayedGateways> {
    const metrics = createMetrics()
    const configs = world.regions.map(region => configOf(world, region, maxEntries))
    const stores = Array.from({ length: count }, (_, at) => {
      const config = configs[at % configs.length]
      if (config === undefined) throw new Error('There is no region')
      return createKeyStore({
        ...{ config, metrics, logger: silentLogger },
        ...{ clock: systemClock, onReload: neverReloads },
      })
    })
    for (let from = 0; from < count; from += STARTED_TOGETHER) {
      const some = stores.slice(from, from + STARTED_TOGETHER)
      for (const store of some) store.start()
      await Promise.all(some.map(store => store.introduced))
    }
    return new PlayedGateways(stores, metrics)
  }

  /** From now on, requests with these keys are counted at each gateway. */
  countRequests(keys: readonly StoredKeyName[]): void {
    const everyMs = 1000 / this.stores.length
    let at = 0
    const startedMs = performance.now()
    this.#traffic = setInterval(() => {
      for (; at * everyMs < performance.now() - startedMs; at++) {
        const store = this.stores[at % this.stores.length]
        for (let request = 0; request < REQUESTS_PER_SECOND; request++) {
          const key = keys[Math.floor(Math.random() * keys.length)]
          if (key === undefined) continue
          const { id: keyId, workspaceId } = key
          store?.recordUsage(usageRequest({ keyId, workspaceId }), 200, false)
        }
      }
    }, 20)
  }

  async stop(): Promise<void> {
    clearInterval(this.#traffic)
    await Promise.all(this.stores.map(store => store.stop()))
  }
}

function configOf({ console, shared }: ScaleWorld, { name, redis }: ScaleRegion, maxEntries: number): Config {
  const loaded = loadConfig({
    environment: {
      ...shared,
      POSTERN_REGION: name,
      POSTERN_REDIS_URL: redis.url,
      POSTERN_KEY_SERVICE_URL: console.urls.internal,
      POSTERN_UPSTREAM_URL: 'http://127.0.0.1:9',
      POSTERN_KEYS_MEMORY_MAX_ENTRIES: String(maxEntries),
    },
    planes: ['gateway'],
  })
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}
