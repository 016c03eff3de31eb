// Generates TypeScript types of all responses from the OpenRPC document that a node serves as `rpc_discover`.
//
// Schemas become types of the same names. Each method becomes a member of `Methods` with its labelled parameters and
// its result. `npm run types` writes viem/src/rpc.ts; a test compares the file with a node's document.

import { compile } from 'json-schema-to-typescript';

const HEADER = `// Made from the document that a node serves as rpc_discover: \`npm run types\` in sdk/js.
/* eslint-disable */`;

const FOOTER = `/** The parameters of a method and its result, for a function of your own: \`call<M extends Method>(method: M, ...parameters: Methods[M]['parameters'])\`. */
export type Method = keyof Methods;

/** As a schema for viem: \`createPublicClient({ rpcSchema: rpcSchema<RpcSchema>(), … })\`. */
export type RpcSchema = { [M in Method]: { Method: M; Parameters: Methods[M]['parameters']; ReturnType: Methods[M]['result'] } }[Method][];`;

const REFERENCE = '#/components/schemas/';

/** Returns the text of the file. */
export async function typesOf({ methods, components }) {
  const definitions = Object.fromEntries(Object.entries(components.schemas).map(([name, schema]) => [name, prepared(schema)]));
  const names = Object.keys(definitions);
  const properties = Object.fromEntries(names.map((name) => [name, { $ref: `#/$defs/${name}` }]));
  const whole = { $defs: definitions, description: 'Every type by its name.', type: 'object', properties, required: names };
  const schemas = await compile(whole, 'Types', { bannerComment: HEADER, additionalProperties: false, style: { printWidth: 140, singleQuote: true } });
  const members = methods.map(({ name, summary, params, result }) => {
    const parameters = params.map((param) => `${param.name}${param.required ? '' : '?'}: ${typeOf(param.schema)}`);
    return `  /** ${summary} */\n  ${name}: { parameters: [${parameters.join(', ')}]; result: ${typeOf(result.schema)} };`;
  });
  return `${schemas.trim()}\n\n/** Every method by its name. */\nexport interface Methods {\n${members.join('\n')}\n}\n\n${FOOTER}\n`;
}

/** Returns the type of a parameter or a result: schema names, arrays of them, null, and alternatives. */
function typeOf(schema) {
  if (schema.$ref) return schema.$ref.slice(REFERENCE.length);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ');
  if (schema.type === 'array') return `${typeOf(schema.items)}[]`;
  if (schema.type === 'null') return 'null';
  throw new Error(`no type is known for ${JSON.stringify(schema)}`);
}

/** Converts a schema, recursively, to the form that the library accepts. */
function prepared(schema) {
  if (Array.isArray(schema)) return schema.map(prepared);
  if (schema === null || typeof schema !== 'object') return schema;
  const { $ref, pattern, allOf, anyOf, ...rest } = schema;
  const one = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, prepared(value)]));
  if ($ref) one.$ref = $ref.replace(REFERENCE, '#/$defs/');
  // All patterns begin with 0x; a type cannot express the rest.
  if (pattern) one.tsType = '`0x${string}`';
  // Both at once would give two types of one name.
  if (allOf && anyOf) one.allOf = prepared([...allOf, { anyOf }]);
  else if (allOf ?? anyOf) one[allOf ? 'allOf' : 'anyOf'] = prepared(allOf ?? anyOf);
  return one;
}
