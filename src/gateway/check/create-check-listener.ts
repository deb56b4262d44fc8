import type { FastifyInstance } from 'fastify'
import type { Config } from '../../config/schema/schema.ts'
import type { Assertions } from '../../upstream/assertion/assertions.ts'
import type { Admission } from '../admission.ts'
import { createDeny } from '../deny.ts'
import type { Gateway } from '../handle-request.ts'
import { createServer, type ServeDeps, serveRequests } from '../server.ts'
import { denyUnforwardable } from './deny-unforwardable.ts'
import { type ProxyKind, readOriginal } from './read-original.ts'
import { createCheckHandler, presentDenialTo } from './respond-to-proxy.ts'

export interface CheckDeps extends ServeDeps {
  readonly admission: Admission
  /** Null if the upstream gets none. */
  readonly assertions: Assertions | null
}

/**
 * The listener of check mode: the gateway's own decision for a proxy that forwards requests itself. It differs in where
 * it reads a request, and in how it answers.
 */
export function createCheckListener(
  config: Config['gateway'],
  proxy: ProxyKind,
  gateway: Gateway,
  deps: CheckDeps,
): FastifyInstance {
  const { reader, rules, responder } = gateway
  const { observer } = responder
  const { pathPrefix = '' } = config.check
  const present = presentDenialTo(proxy)
  const deny = createDeny(deps.admission, observer, present)
  const app = createServer(config, observer, present)
  const checking: Gateway = {
    reader: {
      ...reader,
      original: ({ method = '', rawHeaders }, url) =>
        readOriginal(proxy, { method, url, rawHeaders }, pathPrefix),
    },
    rules: {
      ...rules,
      denyPermitted: ({ message }, permit, target) =>
        denyUnforwardable({ proxy, prefix: reader.credentials.prefix }, message.rawHeaders, permit, target),
    },
    responder: { handlePermitted: createCheckHandler(deps.assertions, deny), deny, observer },
  }
  serveRequests(app, checking, deps)
  return app
}
