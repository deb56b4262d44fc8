import type { RegionSettings } from '../../src/config/schema/schema.ts'

/** A region with a single Redis at this address. */
export function regionAt(name: string, url: string): RegionSettings {
  return {
    name,
    redis: {
      url,
      sentinel: { urls: [] },
      cluster: { urls: [] },
      commandTimeoutMs: 1000,
      connectTimeoutMs: 500,
    },
  }
}
