import { boolean, list, milliseconds, section, text } from './schema-builders.ts'

/** Webhooks that workspaces set themselves. The operator's own is `console.webhook`. */
export const webhooks = section({
  workspaces: section({
    enabled: boolean({
      default: false,
      description: 'Lets managers of a workspace set a webhook for events of its keys',
    }),
    allowedCidrs: list(text({ format: 'cidr' }), {
      default: [],
      maxItems: 256,
      description: 'Addresses or CIDRs of receivers beside public addresses, such as a private network',
    }),
    deniedCidrs: list(text({ format: 'cidr' }), {
      default: [],
      maxItems: 256,
      description: 'Addresses or CIDRs that must not receive events, such as public addresses of your own',
    }),
    allowHttp: boolean({
      default: false,
      description: 'Accepts addresses with http:, over which others can read events',
    }),
    timeoutMs: milliseconds({
      default: 5000,
      minimum: 100,
      maximum: 10_000,
      description: 'Time for a receiver to acknowledge an event',
    }),
  }),
})
