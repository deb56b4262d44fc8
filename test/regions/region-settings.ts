import type { RegionSettings } from '../../src/config/schema/schema.ts'

/**
 * A region with a single Redis at this address.
 * @param commandTimeoutMs after which a command counts as unanswered, and is repeated
 */
export function regionAt(name: string, url: string, commandTimeoutMs = 1000): RegionSettings {
  return {
    name,
    redis: {
      url,
      sentinel: { urls: [] },
      cluster: { urls: [] },
      commandTimeoutMs,
      connectTimeoutMs: 500,
    },
  }
}
