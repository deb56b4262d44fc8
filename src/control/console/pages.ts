import type { FastifyInstance } from 'fastify'
import { csrfTokenOf, personOfRequest, requirePerson } from '../sign-in/people.ts'
import { html } from './html.ts'

/** The console's pages, in a scope in which people are known. */
export function registerPages(scope: FastifyInstance): void {
  scope.get('/', { preHandler: requirePerson }, async (request, reply) => {
    const { name } = personOfRequest(request)
    const page = html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Postern</title></head>
<body><main><p>Signed in as ${name}</p>
<form method="post" action="/sign-out"><input type="hidden" name="_csrf" value="${csrfTokenOf(request, reply)}">
<button>Sign out</button> <button name="everywhere" value="1">Sign out everywhere</button></form>
</main></body>
</html>
`
    return reply.type('text/html; charset=utf-8').send(page.toString())
  })
}
