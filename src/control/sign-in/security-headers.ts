import type { FastifyHelmetOptions } from '@fastify/helmet'
import type { Site } from './site.ts'

const NOBODY = ["'none'"]
const OURSELVES = ["'self'"]
const HALF_A_YEAR_SECONDS = 15_552_000

/** Nothing inline and nothing from elsewhere: what somebody smuggles into a page stays text. */
export function securityHeaders(site: Site | null): FastifyHelmetOptions {
  return {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: NOBODY,
        scriptSrc: OURSELVES,
        styleSrc: OURSELVES,
        imgSrc: OURSELVES,
        fontSrc: OURSELVES,
        connectSrc: OURSELVES,
        manifestSrc: OURSELVES,
        formAction: OURSELVES,
        baseUri: NOBODY,
        frameAncestors: NOBODY,
      },
    },
    xFrameOptions: { action: 'deny' },
    // Browsers that say nothing of where a form comes from send `Origin: null`, which is nobody.
    referrerPolicy: { policy: 'same-origin' },
    // Of this host alone: others in the domain are not ours to speak for.
    strictTransportSecurity:
      site?.secure === true ? { maxAge: HALF_A_YEAR_SECONDS, includeSubDomains: false } : false,
  }
}
