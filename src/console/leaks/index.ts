import type { FastifyInstance, FastifyRequest } from 'fastify'
import { narrowReload } from '../../config/reloadable.ts'
import { LEAK_OUTCOMES, LEAK_REPORTERS } from '../../observability/metrics/metrics.ts'
import type { Registry } from '../keys/index.ts'
import type { Capability, ConsoleContext } from '../platform/capability.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { countAttempt, createAddressLimit } from '../platform/http/authenticate-programs.ts'
import { mountCalls } from '../platform/http/calls.ts'
import { githubCall, reportCall } from './api.ts'
import { createTokenHandler, type HandleTokens, type Reporter } from './operations.ts'
import { createKeySource } from './public-keys.ts'

/** Reports handled at once: each asks the database, and any client may send one. */
const MAX_REPORTS = 16
const nothing = async () => {}

/** Receives reports of leaked keys at `POST /leaks` and `POST /leaks/report`, if the settings say so. */
export function createLeaks(context: ConsoleContext, registry: Registry): Capability {
  const { config, onReload, randomBytes, metrics, logger } = context
  const { enabled, action, reportsPerMinute, github } = config.leaks
  if (!enabled) return {}
  for (const reporter of LEAK_REPORTERS) {
    for (const outcome of LEAK_OUTCOMES) metrics.leakReports.inc({ reporter, outcome }, 0)
  }
  const keys = createKeySource(
    { ...context, proxies: config.outgoing },
    github,
    narrowReload(onReload, next => next.leaks.github),
  )
  const handleTokens = bounded(createTokenHandler({ registry, metrics, action }))
  const limit = createAddressLimit(reportsPerMinute, randomBytes)
  const countReport = (request: FastifyRequest) => countAttempt(limit, request.callerAddress, 'reports')
  const signedCall = githubCall({ keys, handleTokens, countRejection: countReport, logger })
  return {
    registerOpen(app) {
      void app.register(async scope => {
        countFailures(scope, context, 'github')
        keepBytes(scope)
        mountCalls(scope, { prefix: '/leaks', admit: nothing, unknownPath: 'not_found' }, [signedCall])
      })
      void app.register(async scope => {
        countFailures(scope, context, 'public')
        const calls = [reportCall({ handleTokens, logger })]
        mountCalls(scope, { prefix: '/leaks/report', admit: countReport, unknownPath: 'not_found' }, calls)
      })
    },
    stop: keys.stop,
  }
}

function bounded(handleTokens: HandleTokens): HandleTokens {
  let running = 0
  return async (...report) => {
    if (running >= MAX_REPORTS) {
      const text = 'Too many reports are being handled; try again later'
      throw new ApiError('reports_unavailable', text, { 'retry-after': '1' })
    }
    running++
    try {
      return await handleTokens(...report)
    } finally {
      running--
    }
  }
}

function keepBytes(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
}

/** Of requests whose tokens were not handled. */
function countFailures(scope: FastifyInstance, { metrics }: ConsoleContext, reporter: Reporter): void {
  scope.addHook('onResponse', async (_, { statusCode }) => {
    if (statusCode < 400) return
    const outcome = statusCode === 429 ? 'limited' : statusCode < 500 ? 'invalid' : 'failed'
    metrics.leakReports.inc({ reporter, outcome })
  })
}
