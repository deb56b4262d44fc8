import library, { type HtmlSafeString } from 'escape-html-template-tag'

export type Html = HtmlSafeString

/**
 * A template of HTML: whatever is put into it is text, unless it is such a template itself.
 * (The package declares itself as CommonJS, whose default export would be the whole module; what Node imports is the tag.)
 */
export const html = library as unknown as typeof library.default
