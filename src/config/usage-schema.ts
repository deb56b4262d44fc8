import { boolean, section } from './schema-builders.ts'

/** What gateways count and the console keeps. Gateway and console have the same settings: each heeds its own. */
export const usage = section({
  enabled: boolean({
    default: true,
    description:
      'Counts requests per key and keeps the counts; if false, neither counts nor refusals are kept, and `lastUsedAt` goes on',
  }),
})

export const refusals = section({
  enabled: boolean({
    default: true,
    description:
      'Keeps the last 200 refused requests of each workspace for 7 days, with the network of the client’s address',
  }),
})
