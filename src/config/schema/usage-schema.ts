import { boolean, httpUrl, integer, optional, seconds, section } from './schema-builders.ts'

/** What gateways count and the console keeps. Gateway and console have the same settings: each heeds its own. */
export const usage = section({
  enabled: boolean({
    default: true,
    description:
      'Counts requests per key and keeps the counts; if false, neither counts nor refusals are kept, and `lastUsedAt` goes on',
  }),
  reportSeconds: seconds({
    default: 10,
    minimum: 0,
    maximum: 300,
    description:
      'Interval at which gateways report usage to the key service; 0 disables all reports, also those of `lastUsedAt`',
  }),
  maxEntries: integer({
    default: 100_000,
    minimum: 1000,
    maximum: 10_000_000,
    description:
      'Entries of unreported usage in a gateway’s memory: one for each key, and one for each of its routes and outcomes. Beyond it, requests are counted by workspace',
  }),
  export: section({
    url: optional(
      httpUrl(
        'HTTP collector to which gateways also send the counts, one JSON object a line, such as `http://collector:8080/usage`',
      ),
    ),
  }),
})

export const refusals = section({
  enabled: boolean({
    default: true,
    description:
      'Keeps the last 200 refused requests of each workspace for 7 days, with the network of the client’s address',
  }),
})
