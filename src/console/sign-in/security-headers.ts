import type { FastifyHelmetOptions } from '@fastify/helmet'
import type { Site } from './site.ts'

const NONE = ["'none'"]
const SELF = ["'self'"]
const HALF_A_YEAR_SECONDS = 15_552_000

/** Nothing inline and nothing from other origins: injected markup stays inert. */
export function securityHeaders(site: Site | null): FastifyHelmetOptions {
  return {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: NONE,
        scriptSrc: SELF,
        styleSrc: SELF,
        imgSrc: SELF,
        fontSrc: SELF,
        connectSrc: SELF,
        manifestSrc: SELF,
        formAction: SELF,
        baseUri: NONE,
        frameAncestors: NONE,
      },
    },
    xFrameOptions: { action: 'deny' },
    // Under `no-referrer` browsers would send `Origin: null` with forms, which is rejected.
    referrerPolicy: { policy: 'same-origin' },
    // Only this host: the rest of the domain is not ours.
    strictTransportSecurity:
      site?.secure === true ? { maxAge: HALF_A_YEAR_SECONDS, includeSubDomains: false } : false,
  }
}
