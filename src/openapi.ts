import { z } from 'zod';
import * as actions from './protocol/actions.ts';
import * as http from './protocol/http.ts';
import * as observations from './protocol/observations.ts';
import { type Example, type ReplySpec, type RequestSpec, type Route, ROUTES } from './protocol/routes.ts';

type JsonObject = Record<string, unknown>;

/** What clients send: a field with a default may be left out. */
const REQUEST_COMPONENTS: Readonly<Record<string, z.ZodType>> = {
  RunArgs: actions.RunArgs,
  RunAction: actions.RunAction,
  RunIpythonArgs: actions.RunIpythonArgs,
  RunIpythonAction: actions.RunIpythonAction,
  ReadArgs: actions.ReadArgs,
  ReadAction: actions.ReadAction,
  WriteArgs: actions.WriteArgs,
  WriteAction: actions.WriteAction,
  EditArgs: actions.EditArgs,
  EditAction: actions.EditAction,
  BrowseArgs: actions.BrowseArgs,
  BrowseAction: actions.BrowseAction,
  BrowseInteractiveArgs: actions.BrowseInteractiveArgs,
  BrowseInteractiveAction: actions.BrowseInteractiveAction,
  Action: actions.ExecutableAction,
  ExecuteActionRequest: http.ExecuteActionRequest,
  ListFilesRequest: http.ListFilesRequest,
  SecretsRequest: http.SecretsRequest,
  UploadFileForm: http.UploadFileForm,
  SearchFilesRequest: http.SearchFilesRequest,
};

/** What the server answers: a field with a default is always there. */
const REPLY_COMPONENTS: Readonly<Record<string, z.ZodType>> = {
  RunMetadata: observations.RunMetadata,
  RunExtras: observations.RunExtras,
  RunObservation: observations.RunObservation,
  RunIpythonExtras: observations.RunIpythonExtras,
  RunIpythonObservation: observations.RunIpythonObservation,
  ReadExtras: observations.ReadExtras,
  ReadObservation: observations.ReadObservation,
  WriteExtras: observations.WriteExtras,
  WriteObservation: observations.WriteObservation,
  EditExtras: observations.EditExtras,
  EditObservation: observations.EditObservation,
  ElementProperties: observations.ElementProperties,
  BrowseExtras: observations.BrowseExtras,
  BrowseObservation: observations.BrowseObservation,
  DownloadExtras: observations.DownloadExtras,
  DownloadObservation: observations.DownloadObservation,
  ErrorExtras: observations.ErrorExtras,
  ErrorObservation: observations.ErrorObservation,
  McpExtras: observations.McpExtras,
  McpObservation: observations.McpObservation,
  Observation: observations.Observation,
  ActionAcceptedReply: http.ActionAcceptedReply,
  ActionRecord: http.ActionRecord,
  ActionsReply: http.ActionsReply,
  SecretsReply: http.SecretsReply,
  AliveReply: http.AliveReply,
  NotAliveReply: http.NotAliveReply,
  HealthReply: http.HealthReply,
  VscodeTokenReply: http.VscodeTokenReply,
  SubsystemStatus: http.SubsystemStatus,
  ReadyReply: http.ReadyReply,
  Resources: http.Resources,
  SandboxInfo: http.SandboxInfo,
  ServerInfoReply: http.ServerInfoReply,
  SessionInfo: http.SessionInfo,
  SessionsReply: http.SessionsReply,
  SessionClosedReply: http.SessionClosedReply,
  SessionInterruptedReply: http.SessionInterruptedReply,
  SessionRestartedReply: http.SessionRestartedReply,
  ListFilesReply: http.ListFilesReply,
  UploadFileReply: http.UploadFileReply,
  DirectoryEntry: http.DirectoryEntry,
  DirectoryReply: http.DirectoryReply,
  PutFileReply: http.PutFileReply,
  DeleteFileReply: http.DeleteFileReply,
  SearchFilesLine: http.SearchFilesLine,
  WatchEvent: http.WatchEvent,
  EventKind: http.EventKind,
  Event: http.Event,
  EventsReply: http.EventsReply,
  BrowserTabsReply: http.BrowserTabsReply,
  ErrorBody: http.ErrorBody,
};

const DESCRIPTION =
  'The daemon that gives an AI agent its hands: actions over HTTP, observations back. ' +
  '"V0 §…" names a section of the contract of OpenHands V0 that a fact comes from.';

/**
 * The OpenAPI 3.1 document of the server, made from the table of routes and the schemas.
 *
 * @param version of the server
 * @throws Error when a route uses a schema that is not a component, or a path parameter that is not declared
 */
export function buildOpenApi(version: string): object {
  return {
    openapi: '3.1.0',
    info: { title: 'actiond', version, description: DESCRIPTION },
    servers: [{ url: '/' }],
    paths: buildPaths(ROUTES),
    components: {
      schemas: { ...componentsOf(REQUEST_COMPONENTS, 'input'), ...componentsOf(REPLY_COMPONENTS, 'output') },
      securitySchemes: {
        sessionApiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Session-API-Key',
          description: 'The key, as V0 sends it (V0 §2.1).',
        },
        bearer: { type: 'http', scheme: 'bearer', description: 'The same key as a bearer token.' },
      },
    },
  };
}

function buildPaths(routes: readonly Route[]): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) paths[route.path] = { ...paths[route.path], [route.method]: operationOf(route) };
  return paths;
}

function operationOf(route: Route): JsonObject {
  const { operationId, summary, description, isAuthRequired, request, replies } = route;
  const parameters = parametersOf(route);
  return {
    operationId,
    summary,
    ...(description === undefined ? {} : { description }),
    // An empty requirement: no key is needed when the server has none.
    security: isAuthRequired ? [{ sessionApiKey: [] }, { bearer: [] }, {}] : [],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(request ? { requestBody: { required: true, content: contentOf(request) } } : {}),
    responses: Object.fromEntries(Object.entries(replies).map(([status, reply]) => [status, responseOf(reply)])),
  };
}

function parametersOf({ path, params, query }: Route): JsonObject[] {
  const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => {
    const schema = params?.shape[name];
    if (!schema) throw new Error(`${path}: the parameter ${name} is not declared in params`);
    return parameterOf(name, 'path', schema);
  });
  const inQuery = Object.entries(query?.shape ?? {}).map(([name, schema]) => parameterOf(name, 'query', schema));
  return [...inPath, ...inQuery];
}

function parameterOf(name: string, place: 'path' | 'query', schema: z.core.$ZodType): JsonObject {
  const options = { io: 'input', override: refineSchema } as const;
  const { description, ...rest } = plainSchema(z.toJSONSchema(schema, options));
  const required = place === 'path' || schema._zod.optin === undefined;
  return { name, in: place, required, ...(description === undefined ? {} : { description }), schema: rest };
}

function responseOf(reply: ReplySpec): JsonObject {
  return { description: reply.description, content: contentOf(reply) };
}

function contentOf({ schema, mediaType, examples }: RequestSpec | ReplySpec): JsonObject {
  const anything = { type: mediaType === undefined ? 'object' : 'string' };
  return {
    [mediaType ?? 'application/json']: { schema: schema ? refTo(schema) : anything, ...examplesOf(examples) },
  };
}

function examplesOf(examples: Readonly<Record<string, Example>> | undefined): JsonObject {
  return examples ? { examples } : {};
}

function refTo(schema: z.ZodType): JsonObject {
  const all = [...Object.entries(REQUEST_COMPONENTS), ...Object.entries(REPLY_COMPONENTS)];
  const name = all.find(([, component]) => component === schema)?.[0];
  if (name === undefined) throw new Error('a schema of the table of routes is not among the components');
  return { $ref: refName(name) };
}

function refName(name: string): string {
  return `#/components/schemas/${name}`;
}

function componentsOf(components: Readonly<Record<string, z.ZodType>>, io: 'input' | 'output'): JsonObject {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(components)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { io, uri: refName, override: refineSchema });
  return Object.fromEntries(Object.keys(components).map((name) => [name, plainSchema(schemas[name] ?? {})]));
}

/** What zod leaves to us: open objects, the field that tells the members of a union apart, and no bounds that every double has. */
function refineSchema({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodTypes;
  jsonSchema: z.core.JSONSchema.BaseSchema;
}): void {
  const { def } = zodSchema._zod;
  // Answers may get more fields later; only what is declared strict stays closed.
  if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties;
  if (def.type === 'union' && 'discriminator' in def) jsonSchema['discriminator'] = { propertyName: def.discriminator };
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

/** Without what a whole document of its own would say. */
function plainSchema({ $schema: _dialect, $id: _address, '~standard': _standard, ...schema }: JsonObject): JsonObject {
  return schema;
}
