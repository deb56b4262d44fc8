import fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import {
  DatabaseUnavailable,
  OutcomeUnknown,
} from '../../../src/console/platform/database/database-unavailable.ts'
import { usePageErrors } from '../../../src/console/platform/html/page-errors.ts'
import { notFound } from '../../../src/console/platform/html/page-request.ts'
import { ApiError } from '../../../src/console/platform/http/api-error.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const LOST = new DatabaseUnavailable('unreachable', 'the connection broke', { isOutcomeUnknown: true })
const SHOW_KEY = '<a class="button primary" href="/workspaces/ws_1/keys/key_1">Show the key</a>'
const TO_START = '<a class="button primary" href="/">Go to the start page</a>'

test.each<
  [string, Error, number, { title: string; text: string; link: string; hasRequestId: boolean; logs: number }]
>([
  [
    'an unknown page',
    notFound(),
    404,
    {
      title: 'Page not found',
      text: 'The URL may be incomplete',
      link: TO_START,
      hasRequestId: false,
      logs: 0,
    },
  ],
  [
    'what the person may not do',
    new ApiError('forbidden', 'This page is only for administrators'),
    403,
    {
      title: 'Request rejected',
      text: 'This page is only for administrators.',
      link: TO_START,
      hasRequestId: true,
      logs: 0,
    },
  ],
  [
    'a database that does not answer',
    new DatabaseUnavailable('unreachable', 'the connection broke'),
    503,
    { title: 'Database unavailable', text: '', link: TO_START, hasRequestId: true, logs: 1 },
  ],
  [
    'a change that may have been made',
    new OutcomeUnknown({ keyId: 'key_1', workspaceId: 'ws_1' }, LOST),
    503,
    {
      title: 'Outcome unknown',
      text: 'Look at the key key_1 before you try again',
      link: SHOW_KEY,
      hasRequestId: true,
      logs: 1,
    },
  ],
  [
    'a fault of ours',
    new Error('SECRET'),
    500,
    {
      title: 'Internal console error',
      text: 'Try again in a moment',
      link: TO_START,
      hasRequestId: true,
      logs: 1,
    },
  ],
])(
  'a page says of %s what to do, and names the request if the log has more of it',
  async (_, error, status, expected) => {
    const app = fastify()
    onTestFinished(() => app.close())
    let logs = 0
    app.decorateRequest('person', null)
    usePageErrors(app, { clock: new ManualClock(), logger: { ...silentLogger, error: () => logs++ } })
    app.get('/', async () => {
      throw error
    })
    const answer = await app.inject('/')
    expect([answer.statusCode, logs]).toEqual([status, expected.logs])
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(answer.body).toContain(`<h1>${expected.title}</h1>`)
    for (const part of [expected.text, expected.link]) expect(answer.body).toContain(part)
    expect(answer.body.includes('Request id: ')).toBe(expected.hasRequestId)
    expect(answer.body).not.toContain('SECRET')
  },
)
