/** The settings that say where Redis is. At most one of the three places is given. */
export interface RedisPlaces {
  readonly url?: string | undefined
  readonly sentinel: { readonly name?: string | undefined; readonly urls: readonly string[] }
  readonly cluster: { readonly urls: readonly string[] }
}

export type RedisTopology =
  | { readonly kind: 'standalone'; readonly url: string }
  /** The Sentinels, and the name under which they watch the primary. */
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  /** Some nodes of the cluster, from which the others are learnt. */
  | { readonly kind: 'cluster'; readonly urls: readonly string[] }

/** The one place that decides whether there is a Redis at all, and of which kind. @returns null where there is none */
export function redisTopologyOf({ url, sentinel, cluster }: RedisPlaces): RedisTopology | null {
  if (url !== undefined) return { kind: 'standalone', url }
  // A name without addresses, or the other way round, is refused with the settings.
  if (sentinel.name !== undefined || sentinel.urls.length > 0) {
    return { kind: 'sentinel', name: sentinel.name ?? '', urls: sentinel.urls }
  }
  return cluster.urls.length > 0 ? { kind: 'cluster', urls: cluster.urls } : null
}
