/** The settings that locate Redis. At most one of the three is set. */
export interface RedisLocation {
  readonly url?: string | undefined
  readonly sentinel: { readonly name?: string | undefined; readonly urls: readonly string[] }
  readonly cluster: { readonly urls: readonly string[] }
}

export type RedisTopology =
  | { readonly kind: 'standalone'; readonly url: string }
  /** The addresses of the Sentinels, and their name for the primary. */
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  /** Some nodes of the cluster; they name the others. */
  | { readonly kind: 'cluster'; readonly urls: readonly string[] }

/** @returns the kind of Redis and its addresses; null if no Redis is configured */
export function redisTopologyOf({ url, sentinel, cluster }: RedisLocation): RedisTopology | null {
  if (url !== undefined) return { kind: 'standalone', url }
  // The check of the settings rejects a name without addresses, and addresses without a name.
  if (sentinel.name !== undefined || sentinel.urls.length > 0) {
    return { kind: 'sentinel', name: sentinel.name ?? '', urls: sentinel.urls }
  }
  return cluster.urls.length > 0 ? { kind: 'cluster', urls: cluster.urls } : null
}
