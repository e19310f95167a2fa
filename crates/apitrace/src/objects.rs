//! Finds arguments and results that are names of objects, and the kind of each.
//!
//! OpenGL identifies objects by small numbers, and the names of its arguments say which kind is meant: a `texture` is a
//! texture in every function. So the rules are about names of arguments; where a name is ambiguous, they also name functions.
//! Window systems and Direct3D use addresses, which need no rules.

use quipu_model::values::FunctionType;

/// A kind of object; each kind has its own name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// An address or handle of any kind.
    Address,
    /// A texture.
    Texture,
    /// A buffer.
    Buffer,
    /// A framebuffer.
    Framebuffer,
    /// A renderbuffer.
    Renderbuffer,
    /// A program or shader; the two share one name space.
    Program,
    /// A program of the ARB assembly language, or a fragment shader of ATI.
    Assembly,
    /// A vertex array.
    VertexArray,
    /// A sampler.
    Sampler,
    /// A query.
    Query,
    /// A program pipeline.
    Pipeline,
    /// A transform feedback.
    TransformFeedback,
    /// A display list.
    List,
    /// A fence of NV or APPLE.
    Fence,
    /// A semaphore or memory object.
    Memory,
    /// A window, pixmap or pbuffer of the X server.
    Drawable,
}

/// Names of arguments, parts of names of functions (one of them must match), and the kind.
const ARGS: &[(&[&str], &[&str], Class)] = &[
    (&["texture", "textures", "srcName", "dstName", "origtexture"], &["gl"], Class::Texture),
    (&["buffer", "buffers", "readBuffer", "writeBuffer"], &["gl"], Class::Buffer),
    (&["framebuffer", "framebuffers", "readFramebuffer", "drawFramebuffer"], &["gl"], Class::Framebuffer),
    (&["renderbuffer", "renderbuffers"], &["gl"], Class::Renderbuffer),
    (
        &["program", "programs", "id", "ids"],
        &["ProgramARB", "ProgramsARB", "ProgramNV", "ProgramsNV", "FragmentShaderATI"],
        Class::Assembly,
    ),
    (
        &[
            "program",
            "programs",
            "shader",
            "shaders",
            "programObj",
            "shaderObj",
            "containerObj",
            "attachedObj",
            "obj",
        ],
        &["gl"],
        Class::Program,
    ),
    (
        &["sampler", "samplers"],
        &["BindSampler", "DeleteSamplers", "GenSamplers", "CreateSamplers", "SamplerParameter", "IsSampler"],
        Class::Sampler,
    ),
    (&["vaobj", "arrays"], &["gl"], Class::VertexArray),
    (&["array"], &["BindVertexArray", "IsVertexArray"], Class::VertexArray),
    (&["id", "ids"], &["Quer", "ConditionalRender", "QueryCounter"], Class::Query),
    (&["id", "ids", "xfb"], &["TransformFeedback"], Class::TransformFeedback),
    (&["pipeline", "pipelines"], &["gl"], Class::Pipeline),
    (&["list", "lists"], &["CallList", "NewList", "DeleteLists", "IsList"], Class::List),
    (&["fence", "fences"], &["gl"], Class::Fence),
    (&["memory", "memoryObject", "memoryObjects", "semaphore", "semaphores"], &["gl"], Class::Memory),
    (
        &["drawable", "draw", "read", "win", "window", "pbuf", "pixmap", "glxpixmap"],
        &["glX"],
        Class::Drawable,
    ),
];

/// Kinds of the objects that functions return.
const RESULTS: &[(&[&str], Class)] = &[
    (
        &[
            "glCreateProgram",
            "glCreateShader",
            "glCreateProgramObjectARB",
            "glCreateShaderObjectARB",
            "glCreateShaderProgram",
        ],
        Class::Program,
    ),
    (&["glGenLists"], Class::List),
    (
        &[
            "glXCreateWindow",
            "glXCreatePixmap",
            "glXCreatePbuffer",
            "glXCreateGLXP",
            "glXGetCurrentDrawable",
            "glXGetCurrentReadDrawable",
        ],
        Class::Drawable,
    ),
];

/// Functions whose arguments are not objects although their names suggest it.
const EXCEPTIONS: &[&str] = &[
    "glDrawBuffer",
    "glReadBuffer",
    "glClearBuffer",
    "glSelectBuffer",
    "glFeedbackBuffer",
    "glNamedFramebufferDrawBuffer",
    "glNamedFramebufferReadBuffer",
    "glClearNamedFramebuffer",
    "glActiveTexture",
    "glClientActiveTexture",
    "glMultiTexCoord",
    "glGetDebugMessageLog",
    "glProgramString",
    "glProgramEnvParameter",
    "glProgramLocalParameter",
];

/// Kinds of the arguments and the result of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The kind of each argument that is the name of an object.
    pub args: Vec<Option<Class>>,
    /// The kind of the result.
    pub result: Option<Class>,
    /// Whether arguments return new names.
    pub generates: bool,
}

/// The roles of a function's arguments and result.
pub fn roles(function: &FunctionType) -> Roles {
    let name = String::from_utf8_lossy(&function.name);
    let is_exception = EXCEPTIONS.iter().any(|start| name.starts_with(start));
    let args = function.args.iter().map(|arg| {
        let arg = std::str::from_utf8(arg).ok()?;
        let rule = ARGS.iter().find(|(args, functions, _)| {
            args.contains(&arg) && functions.iter().any(|part| name.contains(part))
        })?;
        // In these functions, `buffer` is a constant, but `framebuffer` is a name.
        (!is_exception || rule.2 == Class::Framebuffer).then_some(rule.2)
    });
    let starts = |starts: &&[&str]| starts.iter().any(|start| name.starts_with(start));
    Roles {
        args: args.collect(),
        result: RESULTS.iter().find(|(names, _)| starts(names)).map(|(_, class)| *class),
        generates: ["glGen", "glCreate"].iter().any(|start| {
            name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, args: &[&str]) -> Roles {
        let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        roles(&FunctionType { id: 0, name: name.as_bytes().to_vec(), args, flags: 0 })
    }

    #[test]
    fn names_of_arguments_tell_what_they_name() {
        assert_eq!(of("glBindTexture", &["target", "texture"]).args, [None, Some(Class::Texture)]);
        assert_eq!(of("glAttachShader", &["program", "shader"]).args, [Some(Class::Program); 2]);
        assert_eq!(of("glActiveTexture", &["texture"]).args, [None]);
        assert_eq!(of("glEnableClientState", &["array"]).args, [None]);
        assert_eq!(of("glBindVertexArray", &["array"]).args, [Some(Class::VertexArray)]);
        assert_eq!(of("glPushDebugGroup", &["source", "id"]).args, [None, None]);
        assert_eq!(of("glBeginQuery", &["target", "id"]).args, [None, Some(Class::Query)]);
        assert_eq!(of("glBindProgramARB", &["target", "program"]).args, [None, Some(Class::Assembly)]);
        assert_eq!(of("glBindSampler", &["unit", "sampler"]).args, [None, Some(Class::Sampler)]);
        assert_eq!(
            of("glClearNamedFramebufferfv", &["framebuffer", "buffer"]).args,
            [Some(Class::Framebuffer), None]
        );
        assert_eq!(
            of("glXMakeCurrent", &["dpy", "drawable", "ctx"]).args,
            [None, Some(Class::Drawable), None]
        );
        assert_eq!(of("glCreateShader", &["type"]).result, Some(Class::Program));
        assert!(of("glGenTextures", &["n", "textures"]).generates);
    }
}
