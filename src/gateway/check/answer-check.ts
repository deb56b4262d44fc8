import { bufferedResponse, toFieldList, writeBuffered } from '../../http/buffered-response.ts'
import { NO_BYTES } from '../../http/byte-string.ts'
import { identityHeaders } from '../../upstream/request-headers.ts'
import type { Gateway } from '../handle-request.ts'

/** Tells the proxy to forward the request, and with which headers. */
export const answerCheck: Gateway['answer'] = ({ response, observation }, { grant }) => {
  const fields = toFieldList({ 'cache-control': 'no-store', ...identityHeaders(grant) })
  writeBuffered(response, bufferedResponse(200, fields, NO_BYTES), observation.requestId)
}
