import { parse as parseForm } from 'node:querystring'
import type { FastifyInstance } from 'fastify'
import { asError } from '../../../observability/failure-log.ts'
import { ApiError } from './api-error.ts'
import { hasMoreValues } from './json-values.ts'
import { readFormText, readJsonText } from './storable-text.ts'

/** No call needs more: an import has 1,000 keys of about a hundred values, a usage report 10,000 entries of eight. */
const MAX_JSON_VALUES = 150_000

/** JSON is the only type of body. An empty one counts as none. */
export function readJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.length === 0) return done(null, null)
    if (hasMoreValues(body, MAX_JSON_VALUES)) {
      return done(new ApiError('request_too_large', `The body has more than ${MAX_JSON_VALUES} values`))
    }
    let text: string
    try {
      text = readJsonText(body)
    } catch (error) {
      // Thrown here, it would reach no error handler.
      return done(asError(error))
    }
    parse(request, text, done)
  })
}

/** Adds forms, whose number of fields the size of a body bounds. */
export function readForms(app: FastifyInstance): void {
  const options = { parseAs: 'buffer' } as const
  app.addContentTypeParser<Buffer>('application/x-www-form-urlencoded', options, (_, body, done) => {
    try {
      done(null, parseForm(readFormText(body), '&', '=', { maxKeys: 0 }))
    } catch (error) {
      done(asError(error))
    }
  })
}
